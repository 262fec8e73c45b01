"""Jobs over a lake of logs, partition by partition: bins of impressions, labels of
clicks whose conversions come late, and maps.

`tasks.py` lists the partitions of a source and makes the result of each exactly once,
`executors.py` runs tasks in processes or on Dask, or writes a Job whose pods do. `bins.py` sums
impressions by hour, campaign, fields and cell, and `maps.py` fits maps of bins. `clicks.py` joins
clicks, behaviours and conversions hour by hour, for the labels and trainings of `labels.py`.
"""

"""Jobs over a lake of logs, partition by partition: bins of impressions, and maps.

`partitions.py` lists the partitions of a source, `tasks.py` makes the result of one exactly once,
`executors.py` runs tasks in processes or on Dask, and `kubernetes.py` writes a Job whose pods do.
`bins.py` sums impressions by hour, campaign, fields and cell, and
`maps.py` fits maps of bins.
"""

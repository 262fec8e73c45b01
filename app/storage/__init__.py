"""What sirocco keeps in Redis; every key is in `keys.py`.

`event_log.py` stores the events of a request in one step, as the blocks of `batch.py` and
`blocks.py`; `lua/event_ids.lua` leaves out those that are there already, `ids.py` says how long
their ids are kept, and packs them; `bins.py` folds the blocks into tables of bins by hour.
`versions.py` publishes maps, `models.py` post-click models. `clicks.py` has open clicks,
`conversions.py` conversions that wait for the worker. `lease.py` lets one worker work, and others
refit with it; `jobs.py` queues what operators request, `overrides.py` has the calibrators of single
campaigns. `statistics/` has sums over time: breakdowns by arm, by unit and of money, and whether
campaigns are off. `redis/` opens connections and runs the embedded server.
"""

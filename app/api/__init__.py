"""HTTP: requests to calibration maps, to the event log and to jobs; the only place with statuses.

`application.py` puts it together; `resources.py` is what it opens and closes. `hot_path.py` stands
in front of the framework for the two busy routes, `scoring/` and `events.py`. `maps.py`,
`admin.py`, `bins.py` and `health.py` are the other routes, `cockpit/` those of the page;
`authorization.py` says who may call which, `shedding.py` what waits under load; `problems.py` is
every error.
`snapshot.py` holds the version that is served, and looks for the next; `last_good.py` keeps it on
this host's disk.
`server/` is the HTTP server, `metrics/` what `/metrics` shows.
"""

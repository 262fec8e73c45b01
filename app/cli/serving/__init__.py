"""Commands that run the service or talk to it, a file for each.

`up.py`, `serve.py`, `worker.py` and `demo.py` run it; `replay.py` (with `delayed_replay.py`),
`retrain.py` and `overrides.py` talk to it.
`processes.py` and `serve_workers.py` start, watch and stop processes; `playback.py` sends traffic
hour by hour; `client.py` makes the calls; `settings.py` and `store.py` are what they start with.
"""

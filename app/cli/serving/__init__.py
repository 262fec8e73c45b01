"""What the commands do that run the service or talk to it.

`whole_service.py` is `sirocco up`, `serve.py` the API on one core or more, `processes.py` starts,
watches and stops processes, with the `settings.py` given as options and the Redis of `store.py`.
`demo.py` and `replay.py` send traffic hour by hour (`playback.py`), through the calls of
`client.py`.
"""

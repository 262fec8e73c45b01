"""The service and its command: all that knows a clock, a socket, a file or the environment.

`api/` answers HTTP; `events/` and `columns/` read its bodies. `storage/` is Redis, `click_log/` is
Parquet. `worker/` refits and publishes. `datasets/` reads logs, `results/` says what was measured,
`reports/` draws it, `cli/` is the command `sirocco`.
`settings.py` has every setting, `strict_json.py` decodes JSON of untrusted clients, `errors.py` is
how a command says that it cannot go on.
"""

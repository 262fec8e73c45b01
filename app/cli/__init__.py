"""The command `sirocco`: its commands with their options here, what they do in two folders.

`main.py` lists the commands and imports the one that is called; `options.py` describes options that
several share, `console.py` prints, `signals.py` ends a command with its parent or on SIGTERM.
`run.py`, `operate.py` and `traffic.py` run the service, operate it and send it traffic, by way of
`serving/`. `evaluate.py`, `backtest.py`, `compare.py`, `auction.py`, `ab_test.py`, `behaviours.py`
and `simulate.py` measure or write logs, by way of `measure/`.
`checkout.py` finds the commands that only a checkout has.
"""

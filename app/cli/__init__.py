"""The command `sirocco`, a folder for each kind of command.

`main.py` lists the commands and runs one; `options.py` describes options that several share.
`console.py` and `tables.py` print. `checkout.py` finds the commands that only a checkout has.
`serving/` runs the service or talks to it; `evaluate/`, `backtest/`, `compare/`, `auction/` and
`ab_test/` measure logs.
"""

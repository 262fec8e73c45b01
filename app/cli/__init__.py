"""The command `sirocco`.

`main` lists the commands; `simulations` (demo, replay, backtest, auction, simulate), `measure_logs`
(evaluate, compare, behaviours, readout), `run` (up, serve, worker, size) and `operate` (retrain,
overrides) declare their options and import nothing heavy. What the measuring ones do is in
`measure`, what starts and calls services in `serving`. `options`, `console` and `signals` are
shared.
"""

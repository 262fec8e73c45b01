"""The command `sirocco`.

`main` lists the commands; `backtest`, `evaluate`, `compare`, `auction`, `behaviours`, `ab_test`,
`simulate`, `traffic` (demo, replay), `run` (up, serve, worker) and `operate` (retrain, overrides)
declare their options and import nothing heavy. What the measuring ones do is in `measure`, what
starts and calls services in `serving`. `options`, `console` and `signals` are shared.
"""

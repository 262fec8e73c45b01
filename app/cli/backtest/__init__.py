"""`sirocco backtest` and `sirocco simulate`: what a calibrator would have served on a log."""

"""`sirocco backtest` and `sirocco simulate`."""

"""The hourly backtest: what a method would have served, hour by hour."""

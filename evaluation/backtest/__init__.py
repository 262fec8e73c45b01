"""Backtests: what a method would have served, hour by hour, from what was known before each hour.

`backtest.py` is that of impressions (`event_table.py`), `delayed.py` that of delayed conversions,
with the models that a service would have had (`click_history.py`).
"""

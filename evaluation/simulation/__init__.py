"""Synthetic platforms whose true probabilities are known: impressions (`ad_platform.py`), and
clicks with conversions that come days late (`click_platform.py`).
"""

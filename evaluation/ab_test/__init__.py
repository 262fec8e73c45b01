"""The analysis of an A/B test: `arm_log.py` sums up each arm, `analysis.py` gives RPM, CTR, ROI and
the lift over the control.
"""

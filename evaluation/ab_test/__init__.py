"""The analysis of an A/B test: `analysis.py` gives RPM, CTR, ROI and the lift over the control of a
log, `experiment.py` those of an experiment that runs.
"""

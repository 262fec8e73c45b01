"""The analysis of an A/B test: RPM, CTR and ROI by arm, and the lift over the control."""

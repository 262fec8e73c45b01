"""`sirocco readout`, the analysis of an A/B test."""

"""`POST /v1/calibrate`: scores in, calibrated probabilities out."""

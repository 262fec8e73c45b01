"""Calibration maps, and the atlas that looks up the maps of all campaigns in one pass."""

"""Calibration by field: device, placement, or whatever else describes an impression.

`field_errors.py` has Field-RCE, Field-ECE and MF-RCE with their floors, `multicalibration.py` the
worst cumulative calibration error over all segments, `segments.py` which segments there are, and
`field_log.py` both for a log of any length. All of them also work from sums.
"""

"""Calibration maps: one (`calibration_map.py`), all of a target (`atlas.py`), and the search for a
batch of scores (`look_up.py`).
"""

"""Calibration maps: one, and how far it may be off, of which intervals are made
(`calibration_map.py`); all of a target (`atlas.py`); the search for a batch of scores
(`look_up.py`); groups of campaigns (`groups.py`), and how far maps moved (`movement.py`).
"""

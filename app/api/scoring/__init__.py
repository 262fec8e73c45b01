"""`POST /v1/calibrate`: scores in, calibrated probabilities out (`calibrate.py`). What a request
says is read in `requests.py`; parts of it are units of an experiment (`arms.py`), values of fields
(`fields.py`), scores of several targets (`products.py`), and the wish for an interval
(`intervals.py`; how wide it is, the maps know: `calibrators/maps/calibration_map.py`).
"""

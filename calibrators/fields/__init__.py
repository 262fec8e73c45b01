"""Fields of an impression, such as its device and placement: sums by value (`sums.py`), the effects
that answers are corrected by (`effects.py`), how these are fitted (`fit.py`), and divided among
fields that agree (`overlap.py`).

Nothing is imported here, because serving needs the effects without their fit.
"""

"""Reports of the measuring commands: one HTML file each, and pictures.

`evaluation.py`, `backtest.py`, `comparison.py` and `auction.py` say what is on a page, `page.py`
writes it. `charts/` has the charts, which `axes.py`, `scale.py`, `labels.py` and `drawing.py` draw
with matplotlib. `pictures.py`, `delayed_picture.py` and `behaviour_picture.py` are for `--picture`.
"""

"""Events as trackers send them: their types (`schema.py`), which are admitted and what each adds to
bins and open clicks (`admission.py`); how late or early one may be is in `rejections.py`.
"""

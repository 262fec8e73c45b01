"""Events as trackers send them: their types (`schema.py`), and which are admitted, and what each
adds to bins and open clicks (`admission.py`).
"""

"""Comparisons on the same rows: two models (`models.py`), several methods
(`significance.py`), folders of training runs (`metric_accuracy.py`), and the model with and without
behaviour after the click (`behaviour_study.py`).
"""

"""Metrics of predicted probabilities: calibration, losses, ranking, revenue.

Their functions share these arguments and rules, which their docstrings do not repeat:

p : (n,) probabilities in [0, 1].
y : (n,) outcomes in [0, 1]. A fraction y counts as y of a positive and 1 - y of a negative, such
    as the rate of a bin or an expected conversion. Metrics of revenue take 0 and 1 only.
bids : (n,) finite, at least 0: what a click pays, in any currency.
campaigns, groups, slices : (n,) any hashable keys; integers in an array are the fastest.
sample_weight : (n,) finite, at least 0; None is 1 each. A weight of 3 is three repetitions.

Every function raises ValueError, naming the value, when columns differ in length or a value
breaks its rule. None depends on the order of the rows. What is undefined is nan, as everything is
without samples or without weight. A ratio over 0 is infinite, and nan for 0 over 0: PCOC without
positives, prediction error, COPC and ROPR without predictions, the bins of Cal-N.
"""

"""Tables 2 to 4 of Yi et al., KDD 2013: clicks and no-clicks by score, and what they measure."""

import numpy as np

SCORES = (0.03, 0.02, 0.01, 0.005, 0.0001)
SCORES_3 = (*SCORES[:4], 0.00001)
CLICKS = (300, 200, 100, 500, 100)
CLICKS_3 = (3000, 2000, 1000, 500, 100)

TABLES = {
    "2a": (SCORES, CLICKS, (9_700, 9_800, 9_900, 99_500, 999_900)),
    "2b": (SCORES, CLICKS, (9_700, 9_800, 9_900, 99_500, 9_999_000)),
    "3a": (SCORES_3, CLICKS_3, (97_000, 98_000, 99_000, 99_500, 9_999_900)),
    "3b": (SCORES_3, (3000, 2000, 1000, 100, 500), (97_000, 98_000, 99_000, 9_999_900, 99_500)),
    "4b": (SCORES, CLICKS, (97_000, 98_000, 99_000, 995_000, 9_999_000)),
}
"""Scores, clicks and no-clicks; the first half of Table 4 is that of Table 2."""

RIG = {"2a": 0.250599, "2b": 0.339634, "3a": 0.397042, "3b": -0.545388, "4b": -0.460037}
NMSE = {"2a": 0.987290, "2b": 0.986434, "3a": 0.979030, "3b": 1.017159, "4b": 1.107391}
MAE = {"2a": 2.095e-3, "2b": 3.225e-4, "3a": 1.242e-3, "3b": 5.992e-3, "4b": 1.153e-3}
AUC = {"2a": 0.919324, "2b": 0.953986, "3a": 0.979690, "3b": 0.906945, "4b": 0.919324}
PE = {"2a": 0.0, "2b": 0.749925, "3a": 0.0, "3b": 7.485, "4b": 8.876175}


def aggregated(metric, table):
    """The metric of a table: rates of clicks as outcomes, impressions as weights."""
    scores, clicks, no_clicks = TABLES[table]
    impressions = np.add(clicks, no_clicks)
    return metric(scores, clicks / impressions, sample_weight=impressions)

"""Expected clicks of simulated slots, slot by slot from dictionaries."""

from collections import Counter

import numpy as np

from tests.evaluation.auction.gsp_oracle import auctions_oracle


class OracleHistory:
    """Counts of a log's columns; `factors` is the click curve, nan where it has none."""

    def __init__(self, columns, layout, factors, min_impressions, shrinkage):
        self.layout, self.factors = layout, factors
        self.min_impressions, self.shrinkage = min_impressions, shrinkage
        self.impressions, self.clicks = Counter(), Counter()
        names = ("queries", "ads", "positions", "clicks")
        for query, ad, at, clicked in zip(*(columns[name] for name in names), strict=True):
            if at:
                for key in ((query, ad, at), (query, ad), at):
                    self.impressions[key] += 1
                    self.clicks[key] += int(clicked)
        self.filled = [at for at in range(1, layout.positions + 1) if self.impressions[at]]

    def source(self, at):
        above = [other for other in self.filled if other <= at]
        return max(above) if above else min(self.filled)

    def factor(self, at):
        found = self.factors[self.source(at) - 1]
        return 1.0 if np.isnan(found) else found

    def elsewhere(self, query, ad, at):
        cells = ((query, ad, other) for other in range(1, self.layout.positions + 1))
        exposure = sum(
            self.impressions[cell] * self.factor(cell[2]) for cell in cells if cell in self.clicks
        )
        if not exposure:
            return None
        return min(1.0, self.clicks[query, ad] / exposure * self.factor(at))

    def expected(self, query, ad, at):
        """The click rate of a slot, and the level it comes from."""
        seen, rescaled = self.impressions[query, ad, at], self.elsewhere(query, ad, at)
        if seen >= self.min_impressions:
            pull = 0 if rescaled is None else self.shrinkage
            drawn = pull * (rescaled or 0.0)
            return (self.clicks[query, ad, at] + drawn) / (seen + pull), 1
        if rescaled is not None and at in self.filled:
            return rescaled, 2
        return self.clicks[self.source(at)] / self.impressions[self.source(at)], 3


def simulation_oracle(columns, scores, layout, point, factors, min_impressions=1, shrinkage=0):
    """The five metrics, and how many slots each level answers."""
    history = OracleHistory(columns, layout, factors, min_impressions, shrinkage)
    lists = [list(columns[name]) for name in ("pages", "bids")]
    shown = auctions_oracle(
        *lists,
        list(scores),
        list(columns["ads"]),
        mainline=layout.mainline,
        sidebar=layout.sidebar,
        alpha=point.alpha,
        reserve=point.reserve,
        mainline_reserve=point.mainline_reserve,
    )
    totals, levels = np.zeros(5), [0, 0, 0]
    for row, at, cpc in (slot for page in shown.values() for slot in page):
        rate, level = history.expected(columns["queries"][row], columns["ads"][row], at)
        above = at <= layout.mainline
        totals += [rate, rate * above, 1000 * cpc * rate, 1, above]
        levels[level - 1] += 1
    return totals / len(set(columns["pages"].tolist())), levels

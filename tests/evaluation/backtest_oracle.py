"""The protocol of paper 004, section 5.1, as it is written: hour by hour, campaign by campaign."""

import numpy as np

from calibrators import CalibrationMap


def enough(outcomes, sufficiency):
    """Whether these samples may have a map; without any there is nothing to learn from."""
    return (
        len(outcomes) > 0
        and len(outcomes) >= sufficiency.min_samples
        and outcomes.sum() >= sufficiency.min_positives
    )


def map_for(samples, everyone, calibrator, sufficiency):
    """The campaign's own map, else that of all campaigns together, else the identity."""
    for scores, outcomes in (samples, everyone):
        if enough(outcomes, sufficiency):
            return calibrator.fit(scores, outcomes)
    return CalibrationMap.identity()


def backtest_oracle(table, calibrator, window_hours, sufficiency):
    """{row: probability} of every impression after the first window, from raw samples."""
    hours, served = table.hours, {}
    for t in range(hours.min() + window_hours, hours.max() + 1):
        past = (hours >= t - window_hours) & (hours < t)
        everyone = table.scores[past], table.outcomes[past]
        for campaign in range(len(table.campaigns)):
            own = past & (table.rows == campaign)
            samples = table.scores[own], table.outcomes[own]
            fitted = map_for(samples, everyone, calibrator, sufficiency)
            for row in np.flatnonzero((hours == t) & (table.rows == campaign)):
                served[int(row)] = fitted.at(table.scores[row])
    return served

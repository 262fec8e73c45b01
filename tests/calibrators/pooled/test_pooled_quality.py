"""On traffic whose truth is known, the pooled method beats the per-campaign ones clearly."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import expit

from calibrators import Atlas, PerCampaign, make_calibrator
from calibrators.pooled import Pooled
from calibrators.samples import Floats
from tests.calibrators.pooled.pooled_traffic import drawn_hours, history


@dataclass(frozen=True)
class Campaigns:
    """Sixty campaigns of Zipf traffic, whose levels and slopes differ."""

    levels: Floats
    slopes: Floats
    impressions: tuple[int, ...]

    @classmethod
    def drawn(cls, seed: int) -> "Campaigns":
        rng = np.random.default_rng(seed)
        impressions = tuple(int(900 / rank) + 2 for rank in range(1, 61))
        return cls(rng.normal(0.2, 0.35, 60), rng.normal(-0.1, 0.15, 60), impressions)

    def excess(self, atlas: Atlas) -> float:
        """Mean divergence from the truth over the campaigns' traffic."""
        z = -3.5 + 0.8 * np.linspace(-2.2, 2.2, 23)
        density = np.exp(-(((z + 3.5) / 0.8) ** 2) / 2)
        truth = expit(z + self.levels[:, None] + self.slopes[:, None] * (z + 3.5))
        rows = atlas.rows([f"a{number:04d}" for number in range(60)])
        found = atlas.look_up(np.repeat(rows, len(z)), np.tile(expit(z), 60)).reshape(truth.shape)
        q = np.clip(found, 1e-9, 1 - 1e-9)
        apart = truth * np.log(truth / q) + (1 - truth) * np.log((1 - truth) / (1 - q))
        weights = np.array(self.impressions)[:, None] * density
        return float(np.average(apart, weights=weights))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_its_excess_loss_is_well_below_that_of_sir_and_platt(seed):
    """Under three quarters of either's, though both use the target's map where data lack."""
    campaigns = Campaigns.drawn(seed)
    past = history(
        drawn_hours(
            list(campaigns.levels),
            campaigns.impressions,
            slopes=list(campaigns.slopes),
            seed=seed,
            centre=-3.5,
        )
    )
    pooled = campaigns.excess(Pooled().refit(past).atlas)
    sir, platt = (
        campaigns.excess(PerCampaign(make_calibrator(name, 1000)).refit(past).atlas)
        for name in ("sir", "platt")
    )

    assert pooled < 0.75 * sir
    assert pooled < 0.75 * platt


def test_scores_that_are_true_already_stay_true():
    """Its excess is a fraction of what any per-campaign fit adds."""
    impressions = tuple(int(900 / rank) + 2 for rank in range(1, 61))
    campaigns = Campaigns(np.zeros(60), np.zeros(60), impressions)
    past = history(drawn_hours([0.0] * 60, impressions, seed=4, centre=-3.5))

    pooled = campaigns.excess(Pooled().refit(past).atlas)
    platt = campaigns.excess(PerCampaign(make_calibrator("platt", 1000)).refit(past).atlas)

    assert pooled < 2e-5
    assert pooled < 0.2 * platt

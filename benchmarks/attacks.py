"""One campaign of 20 under attack, with a broken tracker, or after its scores changed.

The platform of `evaluation.simulation.ad_platform` at a click rate of 1 %, refitted hour by hour;
the attack begins 6 hours after the first publish, on the campaign with the third most traffic, 9 %
of it. From then on all of its impressions are recorded as clicks, or none, or all with the same
score 0.05; or the model upstream is replaced, and the scores of all campaigns are 5 times what they
were.

Every figure is the mean probability served in an hour over the mean truth, against the same without
an attack: "campaign x" the largest and "campaign /" the smallest (as 1 / x), of the campaign that
is attacked; "target x" and "target /" of the target's map for all other campaigns; during the
attack and in the 24 hours after it. "hours off" are the hours after the attack in which the
campaign is off by more than a factor of 1.5 (after a change of scores: the hours since).

    python -m benchmarks.attacks [--json]
"""

from dataclasses import dataclass

from benchmarks.attacked import ATTACKED, RESCALED, Attack, Served, play
from benchmarks.figures import Cell, Table
from benchmarks.guard import METHODS
from benchmarks.parts import Part, main
from calibrators import Method
from evaluation.simulation.ad_platform import Platform

KINDS = ("all clicks", "no clicks", "constant scores")
OFF = 1.5


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    methods: tuple[str, ...] = tuple(METHODS)
    kinds: tuple[str, ...] = KINDS
    hours: tuple[int, ...] = (1, 6, 24)
    after: int = 24
    impressions_per_hour: float = 20_000

    @property
    def platform(self) -> Platform:
        """The campaigns."""
        return Platform(20, self.impressions_per_hour, ctr=0.01, seed=4)

    @property
    def behind(self) -> int:
        """The first hour that no attack is followed to."""
        return ATTACKED + max(self.hours) + self.after

    @property
    def attacks(self) -> tuple[Attack, ...]:
        """All of them."""
        struck = tuple(Attack(kind, hours) for kind in self.kinds for hours in self.hours)
        return (*struck, Attack(RESCALED, self.after))


def measure(sizes: Sizes | None = None) -> Table:
    """A row for each method and attack, with the guard and without."""
    sizes = sizes or Sizes()
    rows: dict[tuple[str, Attack, bool], dict[str, Cell]] = {}
    for name in sizes.methods:
        for guarded in (True, False):
            method = METHODS[name]()
            calm = play(method, Attack("nothing", 0), sizes.platform, sizes.behind, guarded)
            for attack in sizes.attacks:
                rows[name, attack, guarded] = row(method, attack, sizes, guarded, calm)
    return {
        f"{name}, {_named(attack)}, {'guarded' if guarded else 'plain'}": rows[
            name, attack, guarded
        ]
        for name in sizes.methods
        for attack in sizes.attacks
        for guarded in (True, False)
    }


def row(
    method: Method, attack: Attack, sizes: Sizes, guarded: bool, calm: list[Served]
) -> dict[str, Cell]:
    """What an attack does, against the same hours without it."""
    attacked = play(method, attack, sizes.platform, attack.over + sizes.after, guarded)
    pairs = list(zip(attacked, calm, strict=False))
    own = [one.campaign / other.campaign for one, other in pairs]
    target = [one.target / other.target for one, other in pairs]
    return {
        "campaign x": max(own),
        "campaign /": 1.0 / min(own),
        "target x": max(target),
        "target /": 1.0 / min(target),
        "hours off": _hours_off(attacked, own, attack.over),
    }


def _hours_off(played: list[Served], ratios: list[float], since: int) -> int:
    pairs = zip(played, ratios, strict=True)
    return sum(each.hour >= since and not 1.0 / OFF <= ratio <= OFF for each, ratio in pairs)


def _named(attack: Attack) -> str:
    return attack.kind if attack.kind == RESCALED else f"{attack.kind} {attack.hours} h"


PART = Part("attacks", "Attacks and broken trackers", __doc__, measure)

if __name__ == "__main__":
    main(PART)

"""Paper 002: Tables 1 to 3, AUC and csAUC of six orders of five samples."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import permutations

from evaluation.metrics.auc import auc
from evaluation.metrics.cs_auc import CsAuc, cs_auc, cs_auc_parts
from research.reproduction.experiment import (
    Check,
    Erratum,
    Experiment,
    Progress,
    Reproduction,
    exact,
    printed,
)

BIDS: Mapping[str, int] = {"A": 100, "B": 4, "C": 3, "D": 2, "E": 999}
LABELS: Mapping[str, int] = {"A": 1, "B": 1, "C": 1, "D": 1, "E": 0}
ORDERS = ("DCBAE", "ABCDE", "ACBDE", "ABDCE", "BCDEA", "ABECD")
PRINTED_AUC = ("1", "1", "1", "1", "0.9", "0.8")
PRINTED_CS_AUC = ("0.2976", "1", "0.9976", "0.9976", "0.069", "0.988")
ORDINAL = {"A": 4, "B": 3, "C": 2, "D": 1, "E": 5}
"""Ids of the bid buckets, which Algorithm 1 also takes for the bids."""


def run(*, quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Computes the table; the size and the seed are of no effect."""
    del quick, seed
    checks = [*_cs_aucs(), *_aucs(), *_explained(), *_corollary(), *_ordinal()]
    progress(1.0)
    return Reproduction(EXPERIMENT.name, EXPERIMENT.title, "002, Tables 1 to 3", checks, NOTES)


def measured(order: str, bids: Mapping[str, int] = BIDS) -> CsAuc:
    """csAUC of samples whose pCTR x bid has this order, highest first."""
    highest = 0.5 / len(order)
    p = [highest * (len(order) - place) / bids[name] for place, name in enumerate(order)]
    return cs_auc_parts(p, [LABELS[name] for name in order], [bids[name] for name in order])


def auc_of_order(order: str) -> float:
    """AUC when the order itself is the score, highest first."""
    scores = [(len(order) - place) / len(order) for place in range(len(order))]
    return auc(scores, [LABELS[name] for name in order])


def counted_cs_auc(order: str, bids: Mapping[str, int] = BIDS) -> Fraction:
    """csAUC by definition 2.2, pair by pair, in whole numbers."""
    worth = {name: LABELS[name] * bids[name] for name in order}
    pairs = [(h, low) for h, low in permutations(order, 2) if worth[h] > worth[low]]
    paid = sum(worth[h] if order.index(h) < order.index(low) else worth[low] for h, low in pairs)
    return Fraction(paid, sum(worth[h] for h, _ in pairs))


def counted_auc(order: str) -> Fraction:
    """AUC of the order, pair by pair."""
    positives = [name for name in order if LABELS[name]]
    negatives = [name for name in order if not LABELS[name]]
    won = sum(order.index(p) < order.index(n) for p in positives for n in negatives)
    return Fraction(won, len(positives) * len(negatives))


def _decimals(text: str) -> int | None:
    """A printed 1 is exact."""
    return 4 if text == "1" else None


def _named(place: int) -> str:
    return f"Seq{place + 1} {ORDERS[place]}"


def _cs_aucs() -> Iterator[Check]:
    part = "Table 3, csAUC"
    for place, order in enumerate(ORDERS):
        yield printed(
            _named(place),
            PRINTED_CS_AUC[place],
            measured(order).value,
            decimals=_decimals(PRINTED_CS_AUC[place]),
            part=part,
        )
    for place, order in enumerate(ORDERS):
        counted = counted_cs_auc(order)
        what = f"{_named(place)}, exactly {counted}"
        yield exact(what, measured(order).value, float(counted), part=part)
    worst = counted_cs_auc(min(map("".join, permutations(BIDS)), key=counted_cs_auc))
    yield exact("worst of all 120 orders, 16/420", measured("ABCDE").worst, float(worst), part=part)


def _aucs() -> Iterator[Check]:
    for place, order in enumerate(ORDERS):
        counted = counted_auc(order)
        reason = (
            f"One negative below {counted * 4} of 4 positives; with 4 pairs, ties half, an AUC is a"
            " multiple of 1/8."
        )
        yield printed(
            _named(place),
            PRINTED_AUC[place],
            auc_of_order(order),
            decimals=_decimals(PRINTED_AUC[place]),
            part="Table 3, AUC of the order",
            erratum=Erratum.exact(float(counted), reason),
        )


def _explained() -> Iterator[Check]:
    """Where the printed AUC comes from."""
    for place, order in enumerate(ORDERS):
        reversed_pairs = 4.0 * (1.0 - auc_of_order(order))
        yield printed(
            f"{_named(place)}: 1 - reversed pairs / all 10 pairs, positive or not",
            PRINTED_AUC[place],
            1.0 - reversed_pairs / 10.0,
            decimals=_decimals(PRINTED_AUC[place]),
            part="Table 3, how AUC seems to have been computed",
        )


def _corollary() -> Iterator[Check]:
    """Corollary 2.3 speaks of pCTR where it must speak of pCTR x bid."""
    part = "Corollary 2.3"
    ordered = cs_auc([0.5, 0.4], [1, 0], [1, 999])
    yield exact("csAUC, pCTR .5 (bid 1, click) and .4 (bid 999, none)", ordered, 0.0, part=part)
    reverse = cs_auc([0.1, 0.5], [1, 0], [100, 1])
    yield exact("csAUC, pCTR .1 (bid 100, click) and .5 (bid 1, none)", reverse, 1.0, part=part)


def _ordinal() -> Iterator[Check]:
    """Lines 25 and 31 to 33 of Algorithm 1 pay the id of the bid's bucket instead of the bid."""
    part = "Table 3, csAUC if bucket ids were paid, as Algorithm 1 does"
    for place, order in enumerate(ORDERS):
        ours, counted = measured(order, ORDINAL).value, counted_cs_auc(order, ORDINAL)
        yield exact(f"{_named(place)}, exactly {counted}", ours, float(counted), part=part)


NOTES = (
    "An order of pCTR x bid does not fix that of pCTR, so the AUC is that of the order itself.",
    "The paper's point stands: from Seq5 to Seq6 AUC falls while csAUC rises.",
    "Corollary 2.3 must say pCTR x bid where it says pCTR: its two examples are csAUC 0 with pCTR"
    " in order, and csAUC 1 with pCTR in reverse.",
    "csAUC of a random order is (1 + worst) / 2, not 1/2.",
)
EXPERIMENT = Experiment(
    "csauc", "csAUC of six orders", "002: Table 3, csAUC and AUC of six orders, exactly", 1.0, run
)

"""The methods of the worlds with fields: each against brute force or a property that it has."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit

from evaluation.simulation.ad_platform import Platform
from research.leaderboard.fields import __main__ as command
from research.leaderboard.fields.boosted import BoostedFields, McGradFields
from research.leaderboard.fields.hierarchical_logistic import HierarchicalLogistic, Term
from research.leaderboard.fields.method import PooledMaps, Rows, Shape
from research.leaderboard.fields.platform import FIELD_REGIMES, FieldPlatform
from research.leaderboard.fields.published import ConfCalib, OnlinePlatt, VennAbers
from research.leaderboard.fields.scores import Run, Scores

WORLD = FieldPlatform(
    Platform(campaigns=5, impressions_per_hour=1_500, ctr=0.1, seed=4),
    FIELD_REGIMES["interacting"],
    seed=3,
)
SHAPE = Shape(WORLD.names, {"device": 4, "placement": 8})
HOURS = [WORLD.hour(hour) for hour in range(4)]
NEXT = HOURS[3].blind()


def taught(method, hours=HOURS[:3]):
    for hour in hours:
        method.observe(hour)
    return method


def counted(column):
    """Positives and the sum of a column by device, over the three hours before."""
    rows = Rows.of(HOURS[:3])
    codes = rows.codes["device"]
    return np.bincount(codes, rows.outcomes), np.bincount(codes, column(rows))


def test_the_hierarchical_fit_is_the_maximum_of_its_penalised_likelihood(monkeypatch):
    """At fixed variances, against a general-purpose optimiser."""
    rows = Rows.of(HOURS[:1])
    model = HierarchicalLogistic(Shape(WORLD.names, {"device": 4}))
    model.fit(rows, sweeps=3)
    monkeypatch.setattr(Term, "learn_variance", lambda term, curvature: None)
    model.fit(rows, sweeps=200)
    found = np.concatenate([term.effects for term in model.terms])

    def loss(effects):
        parts = np.split(effects, np.cumsum([len(term.effects) for term in model.terms])[:-1])
        odds = rows.odds.copy()
        for term, part in zip(model.terms, parts, strict=True):
            effect = part[term.places(rows.codes)]
            odds += effect * (rows.odds - rows.odds.mean()) if term.sloped else effect
        penalties = [p @ p / t.variance for t, p in zip(model.terms, parts, strict=True)]
        return np.logaddexp(0.0, odds).sum() - rows.outcomes @ odds + sum(penalties) / 2.0

    best = minimize(loss, np.zeros(len(found)), method="BFGS")
    np.testing.assert_allclose(found, best.x, atol=2e-3)


def test_the_learnt_variances_find_what_varies():
    """Large where effects are large, next to nothing where fields do nothing; effects follow."""
    world = replace(WORLD, regime=FIELD_REGIMES["dominating"])
    shape = Shape(world.names, {each.name: each.values for each in world.regime.fields})
    model = HierarchicalLogistic(shape)
    model.fit(Rows.of([world.hour(hour) for hour in range(16)]), sweeps=60)
    terms = {term.columns: term for term in model.terms}
    placement = terms["placement",].effects

    assert 0.1 < terms["placement",].variance < 1.5
    assert terms["device",].variance < 0.02
    assert np.corrcoef(placement, world.effects["placement"])[0, 1] > 0.9


def test_a_term_without_data_stays_at_nothing():
    """A value that nobody has seen has no effect."""
    term = Term(("device",), (3,))
    term.step(np.array([1.0, -1.0, 0.0]), np.array([5.0, 5.0, 0.0]))
    assert term.effects[2] == 0.0


def test_confcalib_moves_all_the_way_only_where_it_is_sure():
    """With plenty of data a factor is observed over predicted; with little it is near 1."""
    method = taught(ConfCalib(Shape(WORLD.names, {"device": 4}), z=1e-9, strength=1.0))
    by_hand = np.ones(len(NEXT.events))
    rows, codes = Rows.of(HOURS[:3]), Rows.of([NEXT]).codes
    sums = {
        name: (
            np.bincount(rows.codes[name], rows.outcomes),
            np.bincount(rows.codes[name], expit(rows.odds)),
        )
        for name in ("campaign", "device")
    }
    errors = {name: np.abs(seen - predicted).sum() for name, (seen, predicted) in sums.items()}
    for name, (seen, predicted) in sums.items():
        ratios = seen / np.maximum(predicted, 1e-9)
        by_hand *= ratios[codes[name]] ** (errors[name] / sum(errors.values()))
    careful = taught(ConfCalib(SHAPE, z=1e3)).predict(NEXT)

    np.testing.assert_allclose(method.predict(NEXT), NEXT.events.scores * by_hand, rtol=1e-6)
    np.testing.assert_allclose(careful, NEXT.events.scores, rtol=0.05)


def test_online_platt_follows_its_published_step():
    """Each step against matrices; a level that is off is found, and the bins take what is left."""
    method, theta, matrix = OnlinePlatt(), np.array([1.0, 0.0]), 100.0 * np.eye(2)
    rows = Rows.of(HOURS[:1])
    for x, y in zip(rows.odds[:200], rows.outcomes[:200], strict=True):
        given = method.step(x, y)
        assert given == pytest.approx(theta @ (x, 1.0))
        gradient = (expit(given) - y) * np.array([x, 1.0])
        matrix += np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(matrix, gradient) / 0.1
    assert method.line == pytest.approx(tuple(theta))

    p, truth = taught(OnlinePlatt()).predict(NEXT), HOURS[3].truth
    assert p.mean() == pytest.approx(truth.mean(), rel=0.1)


def test_venn_abers_is_two_isotonic_regressions_for_each_impression():
    """Against the definition, on the impressions themselves, rounded as it rounds."""
    p = taught(VennAbers(), HOURS[:1]).predict(NEXT)
    seen, asked = (np.round(Rows.of([hour]).odds / np.log(1.02)) for hour in (HOURS[0], NEXT))
    for place in range(0, len(asked), 300):
        ends = []
        for outcome in (0.0, 1.0):
            scores = np.append(seen, asked[place])
            outcomes = np.append(HOURS[0].events.outcomes, outcome)
            _, at = np.unique(scores, return_inverse=True)
            n = np.bincount(at)
            fitted = isotonic_regression(np.bincount(at, outcomes) / n, weights=n).x
            ends.append(fitted[at[-1]])
        assert p[place] == pytest.approx(ends[1] / (1.0 - ends[0] + ends[1]))


def test_the_composite_key_has_a_map_for_each_combination():
    """As many names as combinations, each impression's its own; without fields it is the key."""
    keyed = PooledMaps(SHAPE, ("device", "placement"))
    codes = keyed._rows(NEXT)
    chosen = [keyed._names[code].split("/") for code in codes]

    assert len(keyed._names) == 5 * 4 * 8
    assert [int(device) for _, device, _ in chosen] == NEXT.fields["device"].tolist()
    assert [campaign for campaign, _, _ in chosen] == [WORLD.names[row] for row in NEXT.campaigns]
    plain, unknown = (taught(PooledMaps(SHAPE, names)).predict(NEXT) for names in ((), ("city",)))
    assert np.array_equal(plain, unknown)


def test_lightgbm_chooses_its_rounds_by_the_hours_after():
    """Those with the least log loss serve, and they are nearer to the truth than the scores."""
    method = BoostedFields()
    for number in range(12):
        method.observe(WORLD.hour(number))
    hour = WORLD.hour(12)
    p = method.predict(hour.blind())

    assert method._losses.all()
    assert method._losses.min() == method._losses[[20, 40, 80, 160].index(method._rounds)]
    errors = [np.abs(logit(each) - logit(hour.truth)).mean() for each in (p, hour.events.scores)]
    assert errors[0] < errors[1]


MCGRAD = """
import json, sys
import numpy as np
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    (what, files), = json.loads(line).items()
    columns = {name: np.load(file) for name, file in files.items()}
    more = ["outcomes", "weights"] if what == "fit" else []
    assert sorted(columns) == sorted(["rows", "scores", "device", "placement", *more])
    if what == "fit":
        level = columns["outcomes"].sum() / columns["scores"].sum()
        answer = {"rounds": 1}
    else:
        file = files["scores"] + ".npy"
        np.save(file, level * columns["scores"] + 0.001 * columns["device"])
        answer = {"probabilities": file}
    print(json.dumps(answer), flush=True)
"""


def test_mcgrad_is_sent_the_fields():
    """Its pipe, played by a stand-in program: every column arrives."""
    p = taught(McGradFields((sys.executable, "-c", MCGRAD))).predict(NEXT)
    clicks, predicted = counted(lambda rows: expit(rows.odds))
    expected = clicks.sum() / predicted.sum() * NEXT.events.scores + 0.001 * NEXT.fields["device"]

    np.testing.assert_allclose(p, expected)


def test_field_rce_by_hand():
    """Two values: 10 % off over 30 impressions, 50 % over 10; one without positives is left out."""
    found = Scores(sums={"device": np.array([[30.0, 10, 7], [11, 1, 2], [10, 2, 0]])}).summary()
    assert found["field_rce"]["device"] == pytest.approx((30 * 0.1 + 10 * 0.5) / 40)


def test_a_run_scores_the_truth_at_nothing_and_tells_nobody_the_outcomes(monkeypatch):
    """Excess of the truth is 0; outcomes reach a method with `observe` only."""
    seen = []

    class Spy:
        def observe(self, hour):
            seen.append(hour.number)

        def predict(self, hour):
            assert not hour.events.outcomes.any()
            assert seen == list(range(hour.number))
            return np.full(len(hour.events), 0.1)

    monkeypatch.setattr("research.leaderboard.fields.scores.METHODS", {"spy": lambda _: Spy()})
    run = Run(WORLD, ["spy"])
    assert list(run.hours(2, 2)) == [0, 1, 2, 3]
    truth, spy = (run.scores[who].summary() for who in ("truth", "spy"))
    assert truth["excess"] == 0.0 < spy["excess"]
    assert truth["field_rce"]["device"] < spy["field_rce"]["device"]


def test_the_command_prints_what_it_kept(tmp_path, capsys):
    """A short run as JSON, and its tables from the file."""
    short = ["--worlds", "advertisers", "--methods", "raw", "venn_abers", "--first", "1"]
    assert command.main([*short, "--scored", "1", "--json"]) == 0
    kept = tmp_path / "kept.json"
    kept.write_text(capsys.readouterr().out)
    (result,) = json.loads(kept.read_text())
    assert command.main(["--from", str(kept)]) == 0

    table = capsys.readouterr().out
    assert f"| `raw` | {result['found']['raw']['excess']:,.0f} |" in table
    assert "venn_abers" in table

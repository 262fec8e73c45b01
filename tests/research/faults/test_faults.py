"""The matrix names tests that there are, and a service that is killed keeps its guarantees."""

import ast
from collections import Counter
from pathlib import Path

import orjson
import pytest

from research.faults.__main__ import main
from research.faults.acknowledged import CAMPAIGNS, EVENTS_OF_A_BATCH, Acknowledged, Batch
from research.faults.matrix import ROWS, as_markdown
from research.faults.service import PROCESSES, STANDBY

TESTS = Path(__file__).parents[2]


def functions(path: Path) -> set[str]:
    """Names of the test functions of a file."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_each_row_is_played_by_tests_that_there_are():
    """Or says why by none."""
    assert len({row.name for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert bool(row.tests) != bool(row.why), row.name
        for test in row.tests:
            file, _, name = test.partition("::")
            found = functions(TESTS / file)
            assert name in found if name else found, test


def test_the_page_has_the_matrix():
    """As `python -m research.faults matrix --table` prints it."""
    page = (TESTS.parent / "docs" / "reliability.md").read_text()

    assert as_markdown() in page, "docs/reliability.md: paste the table that --table prints"


def test_a_batch_is_what_its_columns_say():
    """Each event once, drawn anew as it was."""
    batch = Batch(1, 2, 1e9)
    requests = list(batch.requests())
    events = [event for sent, _ in requests for event in sent]
    rows, scores, counts, positives = batch.columns()

    types = Counter(event["type"] for event in events)
    outcomes = [event["outcome"] for event in events if event["type"] == "outcome"]
    assert len(events) == EVENTS_OF_A_BATCH
    assert counts.sum() == types["outcome"] + types["impression"]
    assert positives.sum() == sum(outcomes) + types["click"]
    joined = requests[-1][0]
    assert [event["campaign"] for event in joined[:9]] == [CAMPAIGNS[row] for row in rows[:9]]
    assert [event["score"] for event in joined[:9]] == scores[:9].tolist()
    assert list(Batch(1, 2, 1e9).requests()) == requests
    assert [headers for _, headers in requests] == [*[{}] * 6, {"idempotency-key": "1/2"}]
    assert len({event["id"] for event in events if "id" in event}) == types["impression"]


def test_what_was_acknowledged_adds_up_by_hour():
    acknowledged = Acknowledged()
    for number, at in enumerate((1e9, 1e9, 1e9 + 3600)):
        acknowledged.add(Batch(1, number, at), tries=number + 1, requests=1)

    counts = [sum(bins.total_count for _, bins in table) for table in acknowledged.bins().values()]
    assert counts == [2 * counts[1], counts[1]]
    assert (acknowledged.requests, acknowledged.retries) == (6, 3)
    converted = [delay for delay in acknowledged.clicks().values() if delay is not None]
    assert 0 < len(converted) < len(acknowledged.clicks())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_kills_at_any_moment_lose_and_double_nothing(capsys):
    plan = ["--kills", "50", "--events", "2000", "--pause", "0.6", "--standby"]
    code = main(["kills", *plan, "--json"])

    found = orjson.loads(capsys.readouterr().out)
    assert (code, found["lost"], found["doubled"], found["amiss"]) == (0, 0, 0, [])
    assert sum(found["kills"].values()) == 50
    assert {kind.split()[0] for kind in found["kills"]} == {*PROCESSES, STANDBY}
    assert found["events"] >= 50 * 1000
    assert found["answers"] > 0

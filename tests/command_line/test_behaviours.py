"""`sirocco behaviours`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command_line.logs import write

ASKED = ("--behaviour", "seconds=first+second", "--behaviour", "pages", "--feature", "device")


def visits(n: int = 600) -> dict[str, Any]:
    """Seconds foretell the conversion, pages and device do not."""
    rng = np.random.default_rng(5)
    first, second = rng.exponential(60.0, (2, n))
    converted = rng.random(n) < np.where(first + second > 150.0, 0.6, 0.1)
    return {
        "first": first,
        "second": second,
        "pages": rng.integers(1, 4, n),
        "device": rng.choice(["app", "web"], n),
        "conversion": converted.astype(np.int64),
    }


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write(tmp_path / "visits.parquet", visits())


def test_a_behaviour_that_tells_raises_the_auc(log, answered):
    found = answered("behaviours", log, *ASKED)

    assert list(found["rows"]) == ["all", "pre_click", "gain"]
    assert found["rows"]["gain"]["auc"] > 5 * found["rows"]["gain"]["auc_spread"]
    assert found["rows"]["all"]["auc"] > 0.7 > 0.6 > found["rows"]["pre_click"]["auc"]
    assert found["missing"] == {"seconds": 0, "pages": 0}


def test_quintiles_are_of_the_sum(log, answered):
    lowest, *_, highest = answered("behaviours", log, *ASKED)["quintiles"]["seconds"]

    data = visits()
    seconds = data["first"] + data["second"]
    few = np.sort(seconds)[:120]
    assert lowest == pytest.approx(
        {
            "from": few[0],
            "to": few[-1],
            "n": 120,
            "positives": data["conversion"][seconds <= few[-1]].sum(),
            "rate": data["conversion"][seconds <= few[-1]].mean(),
            "lower": lowest["lower"],
            "upper": lowest["upper"],
        }
    )
    assert lowest["lower"] < lowest["rate"] < lowest["upper"] < highest["lower"]


def test_the_same_seed_gives_the_same_numbers(log, answered):
    runs = [answered("behaviours", log, *ASKED, "--seed", seed) for seed in (1, 1, 2)]

    assert runs[0] == runs[1] != runs[2]


def test_tables_picture_and_how_to_read_them(tmp_path, log, called):
    run = called("behaviours", log, *ASKED, "--quintiles", "pages", "--picture", "rates.png")

    assert run.returncode == 0, run.stderr
    assert "Conversion rate by pages\n" in run.stdout
    assert "Conversion rate by seconds" not in run.stdout
    assert "Post-click model, 5 folds" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "Wilson" in run.stderr
    assert "Picture: rates.png" in run.stderr
    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")


def test_more_behaviours_than_a_row_of_panels_holds(tmp_path, log, called):
    four = ("--behaviour", "first", "--behaviour", "second", *ASKED)

    run = called("behaviours", log, *four, "--folds", "2", "--picture", "rates.svg", "--json")

    assert run.returncode == 0, run.stderr
    drawn = (tmp_path / "rates.svg").read_text()
    assert [drawn.count(f"Conversion rate by {name}") for name in ("first", "pages")] == [1, 1]


def test_without_features_there_is_nothing_to_compare_with(log, called):
    run = called("behaviours", log, "--behaviour", "first", "--folds", "2")

    assert run.returncode == 0, run.stderr
    assert "no --feature from before the click was given" in run.stderr


def test_a_csv_with_gaps(tmp_path, called):
    gaps = [None if row % 3 == 0 else row for row in range(600)]

    run = called("behaviours", write(tmp_path / "visits.csv", {**visits(), "pages": gaps}), *ASKED)

    assert run.returncode == 0, run.stderr
    assert "Conversion rate by pages, 200 clicks without it" in run.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--behaviour", "nothing"), "--behaviour 'nothing': visits.parquet has no column"),
        (("--behaviour", "pages", "--conversion", "x"), "visits.parquet has no column 'x'"),
        (("--behaviour", "pages", "--conversion", "first"), "a conversion"),
        (("--behaviour", "first", "--conversion", "half"), "row 2: half = 0.5; a conversion is 0"),
        (("--behaviour", "pages", "--quintiles", "device"), "--quintiles 'device': give a beha"),
        (("--behaviour", "pages", "--quintiles", "first"), "of numbers: pages"),
        (("--behaviour", "pages", "--conversion", "never"), "0 conversions, 5 folds need at least"),
        (("--behaviour", "pages", "--picture", "rates.bmp"), "a picture's name ends in"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, refused, options, expected):
    columns = {**visits(60), "half": [0.0, 0.5] * 30, "never": np.zeros(60)}
    path = write(tmp_path / "visits.parquet", columns)

    assert expected in refused("behaviours", path, *options)

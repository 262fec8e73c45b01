"""`sirocco lake` and `sirocco bins load` as a user types them."""

import json
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.datasets.bin_tables import read_bins
from app.settings import Settings
from calibrators import BinsTable
from tests.api.running_service import serving
from tests.lake.click_lake import ClickWorld
from tests.worker.delayed.click_world import DAY, MIDNIGHT, drawn_stream

NOW = int(time.time() // 3600)


@pytest.fixture(scope="module")
def running(redis_url_of_module):
    with serving(Settings(port=0, fields="device"), redis_url_of_module) as service:
        yield service


@pytest.fixture
def service(running):
    running.store.flushall()
    return running


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(1)
    (tmp_path / "log").mkdir()
    for part in range(2):
        table = pa.table(
            {
                "time": 3600.0 * (NOW - 60 + 60 * rng.random(500)),
                "campaign": [f"c{n}" for n in rng.integers(0, 5, 500)],
                "score": rng.random(500),
                "outcome": rng.integers(0, 2, 500),
                "device": [("ios", "web")[n] for n in rng.integers(0, 2, 500)],
            }
        )
        pyarrow.parquet.write_table(table, tmp_path / f"log/{part}.parquet")
    return tmp_path / "log"


@pytest.mark.slow
def test_a_history_is_summed_and_loaded(called, log, tmp_path, service):
    """Hours older than the service keeps are left out; a second time adds nothing."""
    command = ("lake", "bins", log, "--output", "lake", "--load", "--url", service.url, "--json")
    runs = [called(*command) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    first, again = (json.loads(run.stdout) for run in runs)

    kept = max(service.settings.window_hours, service.settings.history_hours)
    assert (first["partitions"], first["made"], first["rows"]) == (2, 2, 1000)
    assert (again["made"], again["digest"]) == (0, first["digest"])
    loaded, too_old = (first["load"][name] for name in ("loaded", "too_old"))
    # An hour may end while it runs.
    assert kept - 1 <= loaded <= kept + 1
    assert loaded + too_old == 60
    assert kept - 2 <= again["load"]["duplicates"] <= loaded
    hours = sorted(read_bins(tmp_path / "lake/bins.parquet"), key=lambda found: found.hour)
    for found in hours[:too_old]:
        assert service.bins("click", found.hour) == BinsTable.empty()
    for found in hours[too_old:]:
        assert service.bins("click", found.hour) == found.rows.table()


def test_a_share_is_made_and_the_rest_later(called, log):
    shares = [
        json.loads(
            called("lake", "bins", log, "--output", "o", "--index", i, "--of", 2, "--json").stdout
        )
        for i in range(2)
    ]
    whole = json.loads(called("lake", "bins", log, "--output", "o", "--json").stdout)

    assert sum(share["made"] for share in shares) == 2
    assert whole["made"] == 0


JOB = ("lake", "bins", "--executor", "kubernetes")


def test_a_job_of_kubernetes_has_the_command(called, log):
    given = {"SIROCCO_POST_CLICK_MINUTES": "7", "SIROCCO_SIGNING_KEY": "k" * 32}
    pods = ("--image", "sirocco:1", "--pods", 3)
    job = json.loads(called(*JOB, log, "--output", "s3://b/lake", *pods, **given).stdout)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = container["args"]

    assert container["env"] == [{"name": "SIROCCO_POST_CLICK_MINUTES", "value": "7"}]
    assert job["spec"]["completions"] == 3
    assert "--executor" not in arguments
    assert arguments[-4:] == ["--index", "$(JOB_COMPLETION_INDEX)", "--of", "3"]


def test_a_manifest_holds_no_key(refused, log):
    said = refused(*JOB, log, "--output", "o", "--api-key", "sir_1")

    assert "--api-key goes with the command that adds up what pods have made" in said


@pytest.mark.parametrize("option", ["--output", "--output="])
def test_a_manifest_holds_no_password(refused, log, option):
    place = "s3://me:pass-1/x@bucket/lake"
    output = [option + place] if option[-1] == "=" else [option, place]
    said = refused(*JOB, log, *output)

    assert "a Job must not hold a password" in said
    assert "pass-1" not in said


def test_an_output_that_cannot_be_written_is_named(called, log, tmp_path):
    (tmp_path / "file").touch()
    run = called("lake", "bins", log, "--output", tmp_path / "file/below")

    assert run.returncode == 1
    assert f"--output {tmp_path / 'file/below'}: " in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".parquet"])
def test_tables_of_any_format_are_loaded(called, tmp_path, service, suffix):
    columns = {
        "hour": [NOW - 1, NOW - 1], "target": ["click", "click"], "campaign": ["a", "b"],
        "device": ["ios", ""], "cell": [2213, 3073], "count": [3_000_000_000, 10**16 + 1],
        "score_sum": [30_200_000, 10**16 + 1], "positives": [1_000_000_000, 0],
    }  # fmt: skip
    file = tmp_path / f"sums{suffix}"
    if suffix == ".parquet":
        pyarrow.parquet.write_table(pa.table(columns), file)
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        text = [json.dumps(row) for row in rows]
        if suffix == ".csv":
            text = [",".join(columns), *(",".join(map(str, row.values())) for row in rows)]
        file.write_text("\n".join(text) + "\n")
    run = called("bins", "load", file, "--fields", "device", "--url", service.url, "--json")

    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["loaded"] == 1
    # No float has rounded the sum.
    assert service.bins("click", NOW - 1).bins("b").sums[0].tolist() == [10**16 + 1]


def written(path, *rows):
    """A table of bins."""
    head = "hour,target,campaign,cell,count,score_sum,positives"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join([head, *rows, ""]))


def row(hour, target="click"):
    return f"{hour},{target},a,2213,3000000000,30200000,0"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("490000,click,a,2213,3,30200000,0", "score_sum = 30200000; score_sum / count must lie"),
        ("490000,click,a,2213.5,3000000000,30200000,0", "cell = '2213.5'; a cell is a whole"),
        ("490000,click,a,2213,-3,0,0", "count = -3; a sum is a whole number of billionths"),
        ("49,click,a,2213,3000000000,30200000,0", "hour = 49; an hour is floor(epoch seconds"),
        ("490000,click,,2213,3000000000,30200000,0", "campaign = ''; a campaign must have a name"),
        ("490000,click,a,2213,3000000000,30200000,4000000000", "positives = 4000000000; positives"),
    ],
)
def test_a_bad_row_is_named(refused, tmp_path, line, message):
    written(tmp_path / "sums.csv", row(490_000), line)

    assert f"sums.csv, row 2: {message}" in refused("bins", "load", "sums.csv")


def test_a_table_names_the_columns_that_it_lacks(refused, tmp_path):
    (tmp_path / "sums.csv").write_text("hour,target,campaign,cell,count,positives\n")
    said = refused("bins", "load", "sums.csv", "--fields", "device")

    columns = "target, campaign, device, hour, cell, count, score_sum, positives"
    assert f"has no column 'device'; a table of bins has {columns}" in said


def test_a_field_cannot_be_called_as_the_table_itself_calls_a_column(refused, log):
    for command in (("bins", "load", "x.csv"), ("lake", "bins", log, "--output", "lake")):
        said = refused(*command, "--fields", "device,cell")
        assert "--fields cell: a table of bins has a column of this name" in said


def test_a_table_counts_once_however_its_folder_is_named(called, tmp_path, service):
    written(tmp_path / "sums/a.csv", row(NOW - 1))

    runs = [
        called("bins", "load", place, "--url", service.url, "--json")
        for place in ("sums/a.csv", "sums/*.csv", "sums", "./sums/")
    ]

    assert [json.loads(run.stdout).get("loaded", 0) for run in runs] == [1, 0, 0, 0]


def test_two_files_of_one_name_are_not_one_partition(refused, tmp_path):
    for folder in ("eu", "us"):
        written(tmp_path / folder / "a.csv")

    said = refused("bins", "load", "eu", "us")
    assert "2 files are called a.csv: load each with its --partition" in said


def test_a_target_whose_name_is_a_path_gets_no_file(refused, tmp_path):
    written(tmp_path / "sums.csv", row(NOW - 1, "../../esc"))

    assert "target '../../esc'" in refused("lake", "maps", "sums.csv", "--output", "out/maps")
    assert [*tmp_path.rglob("*.atlas")] == []


def test_rows_of_an_hour_stand_together(refused, tmp_path, service):
    written(tmp_path / "sums.csv", *map(row, (NOW - 2, NOW - 1, NOW - 2)))

    said = refused("bins", "load", "sums.csv", "--url", service.url)
    assert "stand in two places; sort the table by target and hour" in said


def test_what_does_not_go_together_is_refused(refused, log):
    bins = ("lake", "bins", log, "--output", "o")
    assert "must be one of local, dask, kubernetes" in refused(*bins, "--executor", "ray")
    assert "--index and --of go together" in refused(*bins, "--index", 1)


def test_labels_of_clicks_become_maps(called, tmp_path, monkeypatch):
    """Train, label and fit in three commands; a second time nothing is made."""
    monkeypatch.setenv("SIROCCO_SIGNING_KEY", "a key of the tests, long enough.")
    for name, value in {
        "ATTRIBUTION_HOURS": "conversion=24", "TRAINING_DAYS": "2", "MIN_TRAINING_CLICKS": "200",
        "TRAINING_THREADS": "1", "MIN_TRAINING_CONVERSIONS": "20",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"SIROCCO_{name}", value)
    ClickWorld.of(drawn_stream(hours=3 * 24, per_hour=15)).write(tmp_path / "logs", 24 * 3600)
    source = ("logs", "--output", "lake", "--as-of", str(MIDNIGHT + 3 * DAY), "--json")
    none = called("lake", "labels", *source)
    assert (none.returncode, none.stdout) == (2, "")
    assert "lake has no models/conversion.json: `sirocco lake train` makes it" in none.stderr

    runs = [called("lake", command, *source) for command in ("train", "labels", "train", "labels")]
    assert [run.returncode for run in runs] == [0] * 4, runs[0].stderr
    found = [json.loads(run.stdout) for run in runs]
    assert found[0]["source"] == "model"
    assert [again["digest"] for again in found[2:]] == [first["digest"] for first in found[:2]]
    assert [again["made"] for again in found[2:]] == [0, 0]
    fit = ("--calibrator", "sir", "--min-samples", "50", "--min-positives", "5")
    maps = called("lake", "maps", "lake/labels-conversion.parquet", "--output", "lake", *fit)
    assert maps.returncode == 0, maps.stderr
    assert (tmp_path / "lake/maps/conversion.atlas").exists()


def test_a_target_that_is_not_delayed_has_no_labels(refused, tmp_path):
    said = refused("lake", "labels", tmp_path, "--output", "lake", "--target", "click")

    assert "--target click: must be a delayed target; SIROCCO_DELAYED_TARGETS has" in said

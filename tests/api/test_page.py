"""The page: its files, the routes made for it, what foreign sites may not do, and the whole of it
in a real browser."""

import gzip
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import orjson
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from app.access.key_store import KeyStore
from app.access.keys import Scope
from app.api.cockpit.analysis import analysed
from app.api.cockpit.page import page_files
from app.storage.jobs import Jobs
from calibrators import Atlas, Bins
from evaluation.ab_test.experiment import BucketDays
from evaluation.metrics.cal_n import cal_n_of
from evaluation.metrics.predictions import Predictions
from tests.api.conftest import alone, new_redis
from tests.api.furnished import BUSY, EXPERIMENTS, FIELDS, HOURS, REFITTED, furnish, send_hour
from tests.api.running_service import RunningService, eventually, serving

VIEWS = {
    "": "Overview",
    "campaigns/click": "Campaigns",
    "campaign/click/books%2Fpaper": "books/paper",
    "versions": "Versions",
    "experiments": "Experiments",
    "fields": "Fields",
    "delayed": "Delayed targets",
}
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
ATTACK = """() => {
  const script = document.createElement("script");
  script.text = "window.hit = 1";
  document.head.append(script);
}"""
OTHERS = 10_000
LATER = 20_000
"""Milliseconds, after which the page has asked again."""


@pytest.fixture(scope="module")
def furnished(settings) -> Iterator[RunningService]:
    with alone(settings, **REFITTED) as service:
        furnish(service, OTHERS)
        yield service


def test_the_files_are_small_guarded_and_those_that_they_name(shared_service):
    names = set(page_files()) - {"index.html"}
    index = shared_service.http.get("/")
    named = set(re.findall(r"(?<=/page/)[\w.-]+", index.text))
    licences = shared_service.http.get("/page/licences.html").text

    assert sum(len(gzip.compress(file.plain)) for file in page_files().values()) < 100_000
    assert names == named | {"licences.html"}
    assert sha256(page_files()["htm-preact.js"].plain).hexdigest() in licences
    for name in ("/", *(f"/page/{name}" for name in names)):
        answer = shared_service.http.get(name)
        again = shared_service.http.get(name, headers={"If-None-Match": answer.headers["etag"]})
        policy = answer.headers["content-security-policy"]
        assert (answer.status_code, answer.headers["content-encoding"]) == (200, "gzip")
        assert {"default-src 'none'", "script-src 'self'"} <= set(policy.split("; "))
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (again.status_code, again.content) == (304, b"")
    assert shared_service.http.get("/page/..%2Fpage.py").status_code == 404


def test_foreign_sites_ask_in_vain_while_there_are_no_keys(settings, redis_url):
    """A page elsewhere that posts, and a name elsewhere that leads to this machine."""
    named = settings.model_copy(update={"allowed_hosts": ("ops.example",)})
    with serving(named, redis_url) as service:
        own = service.url.removeprefix("http://")

        def status(method, path, **headers):
            answer = service.http.request(method, path, headers=headers)
            refused = answer.json().get("type") == "urn:sirocco:problem:foreign-request"
            assert refused is (answer.status_code == 403)
            return answer.status_code

        freeze, override = "/v1/admin/freeze", "/v1/admin/overrides/click/shoes"
        for origin in ("http://evil.example", "null", f"http://{own}.evil.example", "http://[::1]"):
            assert status("POST", freeze, Origin=origin) == 403
            assert status("DELETE", override, Origin=origin) == 403
        for host in (
            "evil.example",
            f"evil.example:{own.rpartition(':')[2]}",
            "127.0.0.1.evil.example",
        ):
            assert status("GET", "/v1/status", Host=host) == 403
        for host in (own, "localhost", "[::1]:80", "ops.example:443"):
            assert status("GET", "/v1/status", Host=host) == 200
        assert status("POST", freeze, Origin=service.url) == 200
        assert status("POST", freeze) == 200
        assert status("GET", "/healthz", Host="evil.example") == 200


@pytest.mark.slow
def test_the_status_and_a_campaign_are_those_of_the_bins(furnished):
    status = furnished.http.get("/v1/status").json()
    older = status["before"]
    found = furnished.http.get(f"/v1/reliability/click/books/paper?before={older}").json()
    bins = [
        furnished.bins("click", int(hour["at"]) // 3600).bins("books/paper")
        for hour in found["hours"]
    ]
    listed = furnished.http.get("/v1/campaigns?sort=evidence&search=PAPER").json()
    jobs = furnished.http.get("/v1/admin/jobs").json()["jobs"]

    assert (status["status"], status["version"]) == ("ready", furnished.serving)
    assert status["targets"]["click"]["window"]["calibrated"]["gc_3_floor"] > 0.0
    assert (len(bins), found["map_before"]["version"]) == (HOURS, older)
    for hour, expected in zip(found["hours"], bins, strict=True):
        assert hour["positives"] == pytest.approx(expected.total_positives)
        assert hour["raw"] == pytest.approx(expected.total_score)
    assert sum(point["n"] for point in found["calibrated"]) == pytest.approx(HOURS * 1500)
    assert found["map"]["values"] != found["map_before"]["values"]
    pooled = Predictions.check(*Bins.merge(bins).samples())
    assert found["cal_n"]["3"]["raw"] == pytest.approx(cal_n_of(pooled, 3, "merge"))
    assert 0.0 < found["cal_n"]["3"]["floor"] < 1.0
    assert [row["campaign"] for row in listed["campaigns"]] == ["books/paper"]
    assert (listed["total"], [job["status"] for job in jobs]) == (1, ["done"])
    gone = furnished.http.get("/v1/reliability/click/nobody?before=000000-00000000").json()
    assert (gone["hours"], gone["raw"], gone["map_before"]) == ([], [], None)


def test_impressions_that_come_after_their_hour_was_evaluated_are_predicted_too(settings):
    with alone(settings, **REFITTED) as service:
        furnish(service)
        path = "/v1/reliability/click/books/paper"
        before = service.http.get(path).json()["hours"][1]
        send_hour(service, before["at"], np.random.default_rng(5))
        service.bins("click", before["at"] // 3600)
        after = service.http.get(path).json()["hours"][1]

    assert (before["n"], after["n"]) == (1500.0, 3000.0)
    assert after["positives"] > before["positives"]
    assert after["calibrated"] == pytest.approx(2 * before["calibrated"])


@dataclass
class Seen:
    """A page, and what happened while it was shown."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: set[str] = field(default_factory=set)


@contextmanager
def opened(browser: Browser, service: RunningService, width=1280, scheme="light") -> Iterator[Seen]:
    size = {"width": width, "height": 900}
    with browser.new_context(viewport=size, color_scheme=scheme) as context:
        seen = Seen(context.new_page())
        seen.page.on("console", lambda message: seen.problems.append(message.text))
        seen.page.on("pageerror", lambda error: seen.problems.append(str(error)))
        seen.page.on("request", lambda asked: seen.requests.add(asked.url))
        seen.page.route("**/v1/experiments", lambda route: route.fulfill(json=EXPERIMENTS))
        seen.page.route("**/v1/fields", lambda route: route.fulfill(json=FIELDS))
        seen.page.clock.install()
        seen.page.goto(f"{service.url}/")
        yield seen


def show(page: Page, view: str) -> None:
    page.evaluate("view => { location.hash = `#/${view}`; }", view)
    expect(page.locator("h1")).to_have_text(VIEWS[view])
    expect(page.locator(".waits")).to_have_count(0)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_every_view_is_whole_readable_and_of_one_origin(browser, furnished, width, scheme):
    with opened(browser, furnished, width, scheme) as seen:
        for view in VIEWS:
            show(seen.page, view)
            found = Axe().run(seen.page).response["violations"]
            assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], view
            assert seen.page.evaluate(OVERFLOW) <= 0, view

        origin = f"{furnished.url}/"
        foreign = {url for url in seen.requests if not url.startswith((origin, "data:"))}
        assert (seen.problems, foreign) == ([], set())
        assert seen.page.locator("b", has_text="<b>").count() == 0

        seen.page.evaluate(ATTACK)
        assert seen.page.evaluate("window.hit") is None
        assert "Content Security Policy" in seen.problems[-1]


def test_a_number_that_is_shown_as_nothing_has_no_sign_and_short_times_are_some(browser, furnished):
    with opened(browser, furnished) as seen:
        parts = "import('/page/parts.js')"
        shown = f"{parts}.then(({{ number }}) => [-0.02, -1.26, 0].map((x) => number(x, 1)))"
        assert seen.page.evaluate(shown) == ["0.0", "-1.3", "0.0"]
        shown = f"{parts}.then(({{ took }}) => [0.0404, 0.9, 61, null].map(took))"
        assert seen.page.evaluate(shown) == ["41 ms", "900 ms", "61 s", "\u2013"]


def test_a_list_of_campaigns_is_found_again(browser, furnished):
    """By a reload, and on the way back from a campaign."""
    with opened(browser, furnished) as seen:
        page = seen.page
        show(page, "campaigns/click")
        search, back = page.get_by_role("searchbox"), page.get_by_role("button", name="Back")
        first = page.locator("tbody tr a").first
        search.fill("campaign-0")
        expect(page.get_by_role("status")).to_contain_text(f"{OTHERS:,} campaigns with")
        top = first.inner_text()
        page.get_by_role("button", name="Next 50").click()
        expect(first).not_to_have_text(top)
        name = first.inner_text()
        page.reload()
        expect(first).to_have_text(name)
        expect(search).to_have_value("campaign-0")
        first.click()
        expect(page.locator("h1")).to_have_text(name)
        page.go_back()
        expect(first).to_have_text(name)
        back.click()
        expect(first).to_have_text(top)
        page.get_by_label("Order").select_option("name")
        expect(page).to_have_url(re.compile("/click/name/campaign-0$"))
        page.reload()
        expect(page.get_by_label("Order")).to_have_value("name")


def test_ten_thousand_campaigns_are_searched_and_one_is_drawn(browser, furnished):
    with opened(browser, furnished) as seen:
        page = seen.page
        show(page, "campaigns/click")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(50)
        expect(page.get_by_role("status")).to_contain_text(f"{OTHERS + len(BUSY):,} campaigns")
        page.get_by_role("searchbox").fill("campaign-0999")
        expect(rows).to_have_count(10)
        page.get_by_role("searchbox").fill("SHOES")
        expect(rows).to_have_count(1)
        # Sums that have lost weight: 0.4 of a click is not none.
        expect(rows.locator("td").nth(6)).to_have_text(re.compile(r"^\d+\.\d$"))
        page.get_by_role("link", name="shoes").click()

        expect(page.locator("h1")).to_be_focused()
        drawings = page.get_by_role("img")
        expect(drawings).to_have_count(4)
        expect(page.locator("circle.raw")).to_have_count(10)
        assert "predicted" in (drawings.first.get_attribute("aria-label") or "")
        page.get_by_text("Numbers of: Hour by hour").click()
        expect(page.get_by_role("region", name="Hour by hour").locator("tbody tr")).to_have_count(
            HOURS
        )


def test_a_rollback_through_the_page_changes_what_serves(browser, furnished):
    before = furnished.serving
    older = furnished.http.get("/v1/status").json()["before"]
    with opened(browser, furnished) as seen:
        page = seen.page
        show(page, "versions")
        button = page.get_by_role("button", name=f"Roll back {older}")
        dialog = page.get_by_role("dialog")
        button.click()
        expect(dialog.get_by_role("listitem").first).to_contain_text(f"in place of {before}")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(button).to_be_focused()
        assert furnished.serving == before

        page.get_by_role("combobox", name="Roll back").select_option("click")
        button.click()
        expect(dialog).to_contain_text("Frozen until released: click.")
        dialog.get_by_role("button", name="Roll back click").click()

        expect(page.locator(".did")).to_contain_text(f"serves the maps of {older}")
        expect(page.get_by_role("region", name="Targets and their")).to_contain_text("frozen")
        page.get_by_role("button", name="Release click").click()
        dialog.get_by_role("button", name="Release click").click()
        expect(page.locator(".did")).to_have_text("click is released.")
    eventually(lambda: furnished.serving != before)
    told = furnished.http.get("/v1/admin/versions").json()
    assert (told["rolled_back"]["to"], told["frozen"]) == (older, {})
    entries = furnished.http.get("/v1/admin/audit").json()["entries"]
    assert [entry["what"] for entry in entries] == ["unfreeze", "rollback"]


def test_a_holdout_is_neither_watched_nor_promoted(browser, furnished):
    one = EXPERIMENTS["experiments"]["click"] | {"challenger": {}, "shares": {"raw": 0.01}}
    with opened(browser, furnished) as seen:
        holdout = {**EXPERIMENTS, "experiments": {"click": one | {"watch": {}}}}
        seen.page.route("**/v1/experiments", lambda route: route.fulfill(json=holdout))
        show(seen.page, "experiments")

        expect(seen.page.locator(".fact", has_text="canary").locator("dd")).to_contain_text("off")
        expect(seen.page.get_by_role("button", name="Promote")).to_be_disabled()


def test_of_a_map_that_stays_no_probability_is_told(browser, furnished):
    with opened(browser, furnished) as seen:
        show(seen.page, "versions")
        button = seen.page.get_by_role("button", name=f"Compare {furnished.serving}")
        button.click()
        expect(seen.page.get_by_role("heading", name="If ")).to_be_focused()

        same = "0 of 6 campaigns would move. Everybody else: as now."
        expect(seen.page.get_by_role("region", name="If ")).to_contain_text(same)
        seen.page.get_by_role("button", name="Close").click()
        expect(button).to_be_focused()


def test_a_key_of_some_campaigns_sees_those_and_is_told_what_it_does_not(browser, settings):
    with alone(settings, **REFITTED) as service:
        furnish(service)
        keys = KeyStore(service.store)
        keys.make(frozenset({Scope.ADMIN}))
        _, token = keys.make(frozenset({Scope.READ}), campaigns=("books/", "shoe"))
        known = {"Authorization": f"Bearer {token}"}
        service.know_keys()
        with opened(browser, service) as seen:
            page = seen.page
            page.get_by_label("API key").fill(token)
            page.keyboard.press("Enter")
            expect(page.locator(".limits")).to_contain_text("begin with books/ or shoe. Totals of")
            links = page.get_by_role("navigation").get_by_role("link")
            expect(links).to_have_text(["Overview", "Campaigns"])
            assert Axe().run(page).response["violations"] == []
            page.get_by_role("listitem").get_by_role("link", name="click").click()
            expect(page.locator("tbody tr td:first-child")).to_have_text(["shoes", "books/paper"])
            page.get_by_role("link", name="books/paper").click()
            expect(page.get_by_role("img")).to_have_count(4)
            page.evaluate("location.hash = '#/campaign/click/hats'")
            expect(page.get_by_role("alert").first).to_contain_text("unknown campaign")
            page.evaluate("location.hash = '#/versions'")
            expect(page.locator("h1")).to_have_text("Overview")
        told = service.http.get("/v1/status", headers=known).json()
        assert told["targets"] == {"click": {"delayed": False}, "conversion": {"delayed": True}}
        assert (told["campaigns"], told["worker"], told["products"]) == (
            ["books/", "shoe"],
            None,
            {},
        )


def test_a_product_that_is_off_is_told_and_shown(browser, settings):
    row = {"trials": 9e4, "predicted": 80.5, "positives": 100.25, "pcoc": 0.803, "pcoc_floor": 0.08}
    report = {"products": {"pay": {"hour": None, "window": row, "off": True}}}
    with alone(settings, products={"pay": ("click", "conversion")}) as service:
        service.publish({"click": Atlas.empty()}, report)
        with opened(browser, service) as seen:
            expect(seen.page.get_by_role("listitem").last).to_contain_text(
                "pay: the product predicts 80.5 where 100.3 came"
            )
            cells = seen.page.get_by_role("region", name="How products do").locator("td")
            expected = ["pay off", r"click . conversion", "0.803", "0.080", ".", "90,000", "80.5"]
            expect(cells).to_have_text([*map(re.compile, expected), "100.3", "conversion"])
            assert Axe().run(seen.page).response["violations"] == []


def test_the_analysis_of_an_experiment_is_a_table_of_its_arms(browser, furnished):
    rng, arms = np.random.default_rng(3), np.arange(4096) % 2
    sums = rng.poisson((300.0, 9.0, 12.0, 20.0), (6, 4096, 4)).astype(float)
    days = BucketDays(np.arange(20_000, 20_004), sums[2:])
    analysis = analysed(arms, days, sums[:2].sum(axis=0), {"champion": (120.0, 100.0)})
    found = {"first_day": "2024-10-04", "days": 4, "days_before": 2, "analysis": analysis}
    body = orjson.dumps({**found, "delayed": {"conversion": analysis}})
    with opened(browser, furnished) as seen:
        page = seen.page
        page.route("**/analysis", lambda route: route.fulfill(body=body))
        show(page, "experiments")
        page.get_by_role("button", name="A/B analysis of click").click()
        rows = page.get_by_role("region", name="Arms of click").locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("1.200")
        expect(rows.last).to_contain_text("lift:")
        expect(page.get_by_role("region", name="Conversions: conversion")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        assert seen.page.evaluate(OVERFLOW) <= 0


def test_what_to_do_first_is_told_and_last_values_stay_when_all_else_goes(browser, settings):
    def status():
        return service.http.get("/v1/status").json()

    with (
        new_redis() as redis,
        serving(settings, redis.url) as service,
        opened(browser, service) as seen,
    ):
        page = seen.page
        first = page.get_by_role("heading", name="what to do first")
        expect(first).to_be_visible()
        expect(page.locator("#state")).to_contain_text("Starting: no worker has given a sign")
        expect(page.locator("dl").first).to_contain_text("starting")
        service.app.state.resources.refresher.started_at -= 60.0
        page.clock.fast_forward(LATER)
        expect(page.locator("li").first).to_contain_text("No worker gives a sign of life")
        expect(page.locator("pre").first).to_contain_text(f"curl -s {service.url}/v1/events")
        nothing = {stage: {"n": 0.0, "positives": 0.0} for stage in ("raw", "calibrated")}
        service.publish({"click": Atlas.empty()}, {"targets": {"click": {"window": nothing}}})
        page.clock.fast_forward(LATER)
        expect(page.locator("footer")).to_contain_text(f"Version {service.serving}")
        expect(first).to_be_visible()
        redis.__exit__(None, None, None)
        eventually(lambda: not status()["store"]["up"])
        page.clock.fast_forward(LATER)
        expect(page.locator(".failed")).to_contain_text("Redis is away")
        expect(page.locator("li").first).to_contain_text("Redis does not answer")
        expect(page.locator("dl").first).to_contain_text("what waits is not known")
        page.route("**/v1/status", lambda route: route.abort())
        for _ in range(4):
            with page.expect_event("requestfailed"):
                page.clock.fast_forward(LATER // 2)
        expect(page.locator(".failed").first).to_contain_text("what is shown is of")
        expect(first).to_be_visible()


def test_a_wrong_key_is_told_and_one_that_reads_changes_nothing(
    browser, settings, redis_url, redis_client
):
    keys = KeyStore(redis_client)
    keys.make(frozenset({Scope.ADMIN}))
    _, reader = keys.make(frozenset({Scope.READ}))
    with serving(settings, redis_url) as service, opened(browser, service) as seen:
        page = seen.page
        given = page.get_by_label("API key")
        given.fill("sir_wrong_key")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("This key is not valid")
        given.fill(reader)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        page.evaluate("location.hash = '#/versions'")
        expect(page.get_by_role("region", name="Kept")).to_contain_text("Nothing has been")
        expect(page.get_by_role("region", name="Jobs")).to_contain_text("None of the last day")
        expect(page.get_by_role("button", name="Refit now")).to_have_count(0)
        expect(page.get_by_role("button", name="Compare")).to_have_count(0)
        expect(page.locator(".limits")).to_contain_text("may look, and change nothing")
        assert page.context.cookies() == []
        keys.expire(reader.split("_")[1], 0.0)
        service.know_keys()
        page.clock.fast_forward(LATER)
        expect(page.get_by_role("alert")).to_contain_text("This key is not valid")
        expect(page.locator(".limits")).to_have_count(0)
        page.get_by_role("button", name="Forget the key").click()
        expect(given).to_be_visible()


def test_where_one_goes_before_the_page_listens_is_not_missed(browser, furnished):
    """A link that is followed between the first drawing and the first listening."""
    gone = """const listen = window.addEventListener;
        window.addEventListener = (kind, ...rest) => {
            if (kind === "hashchange") history.replaceState(null, "", "#/experiments");
            listen.call(window, kind, ...rest);
        };"""
    with opened(browser, furnished) as seen:
        seen.page.add_init_script(gone)
        seen.page.reload()

        expect(seen.page.locator("h1")).to_have_text(VIEWS["experiments"])


def test_what_comes_late_stands_where_it_belongs(browser, furnished):
    late = []
    with opened(browser, furnished) as seen:
        page = seen.page
        page.route("**/v1/reliability/**", lambda route: late.append(route))
        page.goto("about:blank")
        page.goto(f"{furnished.url}/#/campaign/click/books%2Fpaper")
        expect(page.get_by_role("heading", name="Its calibrator")).to_be_visible()
        expect(page.locator(".waits")).to_have_count(1)
        assert page.locator("main > div > *").first.get_attribute("class") == "crumbs"
        late.pop(0).continue_()
        expect(page.locator(".waits")).to_have_count(0)
        assert page.locator("main > div > *").first.get_attribute("class") == "crumbs"


def test_a_view_that_there_is_not_is_the_first(browser, furnished):
    with opened(browser, furnished) as seen:
        for view in ("constructor", "campaign/nothing/hats", "campaign"):
            show(seen.page, "versions")
            seen.page.evaluate("view => { location.hash = `#/${view}`; }", view)
            expect(seen.page.locator("h1")).to_have_text("Overview")
        assert seen.problems == []


def test_one_drawing_is_as_large_as_one_of_two_are(browser, furnished):
    with opened(browser, furnished) as seen:
        seen.page.evaluate("location.hash = '#/campaign/click/nobody'")
        expect(seen.page.get_by_role("img")).to_have_count(1)
        assert seen.page.locator("figure").bounding_box()["width"] < 640


def test_what_waits_says_why_and_a_long_name_hides_no_button(browser, settings):
    with alone(settings) as service, opened(browser, service, 1440) as seen:
        Jobs(service.store).submit("retrain", {"campaign": 80 * "x", "target": "click"}, 1.0)
        service.hold()
        show(seen.page, "versions")
        expect(seen.page.locator(".card.warns")).to_contain_text("click: the refit fitted no map")
        expect(seen.page.get_by_role("button", name="Cancel job 000001")).to_be_visible()
        jobs = seen.page.get_by_role("region", name="The last jobs")
        assert jobs.evaluate("box => box.scrollWidth - box.clientWidth") <= 0


def test_where_admin_routes_are_elsewhere_a_campaign_says_so(browser, furnished):
    with opened(browser, furnished) as seen:
        page = seen.page
        page.route("**/v1/admin/overrides**", lambda route: route.fulfill(status=404, json={}))
        page.evaluate("location.hash = '#/campaign/click/books%2Fpaper'")
        expect(page.get_by_text("Admin routes are not served on this port")).to_be_visible()
        expect(page.get_by_role("button", name="Set")).to_have_count(0)

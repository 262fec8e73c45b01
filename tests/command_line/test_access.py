"""`sirocco keys` and `sirocco audit` against a running API, and services that have keys."""

import subprocess
from typing import Any

import httpx
import orjson
import pytest

from app.access.audit import AuditLog, AuditUnwritable
from app.access.keys import Scope
from app.cli.console import note, numbers_table, print_line, print_table, utc
from app.settings import Settings
from app.storage import keys
from tests.api.running_service import eventually, serving
from tests.loopback import LOOPBACK
from tests.reserved_ports import reserved_port

BOOTSTRAP = "bootstrap-" + "k" * 32
QUESTION = {"target": "click", "campaign": "a", "scores": [0.5]}


@pytest.fixture
def service(redis_url, tmp_path):
    with serving(Settings(port=0, snapshot_dir="off"), redis_url) as running:
        yield running


def test_a_key_from_its_making_to_its_end(called, service, tmp_path):
    of = ("--url", service.url)
    first = called("keys", "create", "--scope", "admin", "--scope", "read", "--name", "ops", *of)
    file = tmp_path / "ops.key"
    file.write_text(first.stdout)
    file.chmod(0o600)

    refused = called("keys", "list", *of)
    by_file = {"SIROCCO_API_KEY_FILE": str(file)}
    made = called(
        *("keys", "create", "--scope", "calibrate", "--name", "shop", "--campaigns", "shop/"),
        *("--rate-limit", 50, "--expires-in", "90d", "--json", *of), **by_file,
    )  # fmt: skip
    key = orjson.loads(made.stdout)["key"]
    rotated = called("keys", "rotate", key["id"], "--grace", "1h", *of)
    expired = called("keys", "expire", key["id"], "--at", "2026-01-01T00:00:00Z", *of)
    replacement = rotated.stdout.split("_")[1]
    revoked = called("keys", "revoke", replacement, "--json", *of)
    listed = called("keys", "list", *of).stdout.splitlines()

    assert (first.returncode, first.stdout[:4]) == (0, "sir_")
    assert "shown this once" in first.stderr
    assert refused.returncode == 1
    assert "answered 401: it asks for a valid API key: set SIROCCO_API_KEY" in refused.stderr
    assert (key["campaigns"], key["rate_limit"]) == (["shop/"], 50)
    assert 89 * 86_400 < key["expires_at"] - key["created_at"] <= 90 * 86_400
    assert "expired" in expired.stdout
    assert "has ended at 2026-01-01T00:00:00Z" in expired.stdout
    assert orjson.loads(revoked.stdout)["standing"] == "revoked"
    assert len(listed) == 3
    assert listed[2].startswith(f"{replacement}  revoked  calibrate  shop  only shop/  50/s")
    assert all(secret not in "\n".join(listed) for secret in first.stdout.split("_", 2)[2:])


def test_the_audit_log_is_shown_and_verified(called, service):
    of = ("--url", service.url)
    called("overrides", "set", "click", "shoes", "sir", *of)
    called("overrides", "delete", "click", "shoes", *of)
    for names in (["b"], ["a", "c"]):
        campaigns = {"target": "click", "campaigns": names}
        service.http.post("/v1/admin/freeze", json=campaigns)
    service.publish({})
    service.http.post("/v1/admin/rollback", json={"version": "none", **campaigns})
    shown = called("audit", *of).stdout.splitlines()
    entries = orjson.loads(called("audit", "--json", *of).stdout)["entries"]
    whole = called("audit", "--verify", *of)

    service.store.lset(keys.AUDIT, 0, service.store.lindex(keys.AUDIT, 1))
    broken = called("audit", "--verify", "--json", *of)
    token = called("keys", "create", "--scope", "admin", "--expires-in", "12h", *of).stdout.strip()
    newest = called("audit", "--json", *of, SIROCCO_API_KEY=token).stdout
    ends = orjson.loads(newest)["entries"][0]["after"]["expires_at"]
    told = called("audit", *of, SIROCCO_API_KEY=token).stdout

    assert f"expires_at={utc(ends)}" in told
    whats = ["rollback", "freeze", "freeze", "delete-override", "set-override"]
    assert [entry["what"] for entry in entries] == whats
    assert "freeze  click  - -> click:b  (" in shown[2]
    assert "freeze  click  click:b -> click:a, click:b, click:c  (" in shown[3]
    assert "-> campaigns=a,c, freeze=true, version=none  (" in shown[4]
    assert "loopback" in shown[0]
    assert "set-override  click:shoes  - -> sir" in shown[0]
    assert whole.stdout == "all 5 entries are as they were written\n"
    assert broken.returncode == 1
    assert "the audit log was tampered with: entry 2" in broken.stderr
    assert orjson.loads(broken.stdout)["wrong"]


def test_changes_that_a_full_disk_refused_are_no_tampering(called, redis_url, tmp_path):
    """Redis has their entries, the file has not; with any other entry that it lacks, it differs."""
    file = tmp_path / "audit.jsonl"
    given = Settings(port=0, snapshot_dir="off", audit_log=file)
    with serving(given, redis_url) as running:
        of = ("--url", running.url)
        log = AuditLog(running.store, file)
        for place in range(3):
            log.record("ops", f"r{place}", "retrain", target="")
        with (
            pytest.raises(AuditUnwritable),
            AuditLog(running.store, tmp_path).change("ops", "r", "retrain", target=""),
        ):
            pass
        log.record("ops", "r9", "retrain", target="")
        whole = called("audit", "--verify", "--file", file, *of)
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:1] + lines[2:]))
        without = called("audit", "--verify", "--file", file, *of)
        file.write_text("".join(lines)[:-9])
        torn = called("audit", "--verify", "--file", file, *of)

    assert whole.stdout == "all 6 entries are as they were written\n", whole.stderr
    assert "entry 2: the files and the service differ" in without.stderr
    assert f"{file}, line 4: cannot be read" in torn.stderr


def test_the_files_of_all_hosts_contradict_a_new_chain(called, redis_url, tmp_path):
    of = []
    for host in ("one", "two"):
        file = tmp_path / f"{host}.jsonl"
        given = Settings(port=0, snapshot_dir="off", audit_log=file)
        with serving(given, redis_url) as running:
            called("overrides", "set", "click", host, "sir", "--url", running.url)
        of += ["--file", file]
    with serving(given, redis_url) as running:
        of += ["--url", running.url]
        whole = called("audit", "--verify", *of)
        running.store.delete(keys.AUDIT, keys.AUDIT_HEAD)
        forged = AuditLog(running.store, None)
        for host in ("one", "three"):
            forged.record("loopback", "r", "set-override", target=f"click:{host}", after="sir")
        anew = called("audit", "--verify", *of[-2:])
        contradicted = called("audit", "--verify", *of)
        (empty := tmp_path / "empty.jsonl").touch()
        emptied = called("audit", "--verify", "--file", empty, *of[-2:])
        running.store.delete(keys.AUDIT, keys.AUDIT_HEAD)
        wiped = called("audit", "--verify", *of)
        fresh = called("audit", "--verify", "--file", empty, *of[-2:])

    assert whole.stdout == "all 2 entries are as they were written\n"
    assert anew.returncode == 0
    assert contradicted.returncode == 1
    assert "entry 1: the files and the service differ" in contradicted.stderr
    assert wiped.returncode == emptied.returncode == 1
    assert "entry 1: is missing in the service, the files go to 2" in wiped.stderr
    assert "the files have no entries" in emptied.stderr
    assert fresh.stdout == "all 0 entries are as they were written\n"


def test_a_name_gives_no_orders_to_a_terminal(capsys):
    print_line("shoes\x1b]0;owned\x07\nforged \x9b31m été")

    assert capsys.readouterr().out == "shoes\\x1b]0;owned\\x07\\x0aforged \\x9b31m été\n"
    note("two lines\n[bold]\x1b[31m")
    assert capsys.readouterr().err == "two lines\n[bold]\\x1b[31m\n"
    print_table(numbers_table("[red]\x1b", "of"), "clicks\x1b")
    assert capsys.readouterr().out.split()[:3] == ["clicks\\x1b", "[red]\\x1b", "of"]


def test_an_error_gives_no_orders_to_a_terminal(refused, tmp_path):
    (tmp_path / "log.csv").write_text("\x1b[31mred,b\n1,2\n")
    said = refused("evaluate", "log.csv")

    assert "\\x1b[31mred" in said
    assert "\x1b" not in said


def test_a_key_that_no_header_can_hold_is_not_shown(refused):
    said = refused("retrain", "--api-key", "a secret")

    assert "printable ASCII" in said
    assert "secret" not in said


@pytest.mark.parametrize("command", [("serve",), ("up", "--workers", 2)], ids=["alone", "workers"])
def test_a_service_with_keys_and_a_port_for_admins(started, called, environment, tmp_path, command):
    """Its children have the secret by a file; nobody on the machine sees it in their arguments."""
    secret, port, admin_port = tmp_path / "bootstrap", reserved_port(), reserved_port()
    secret.write_text(BOOTSTRAP)
    secret.chmod(0o600)
    environment |= {
        "SIROCCO_BOOTSTRAP_ADMIN_KEY_FILE": str(secret),
        "SIROCCO_ADMIN_PORT": str(admin_port),
    }
    given = ("--host", "0.0.0.0", "--port", port, "--data-dir", tmp_path / "data")
    process = started(*command, *given)
    url, admins = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}"
    eventually(lambda: process.poll() is not None or answers(f"{url}/readyz") == 200)

    none = called("keys", "list", "--url", admins, SIROCCO_API_KEY=BOOTSTRAP)
    assert "no keys: without SIROCCO_BOOTSTRAP_ADMIN_KEY everybody" in none.stderr
    wrong = called("keys", "list", "--url", url, SIROCCO_API_KEY=BOOTSTRAP)
    assert "404: no admin routes are here: give --url their own port" in wrong.stderr
    made = called(
        *("keys", "create", "--scope", "calibrate", "--url", admins), SIROCCO_API_KEY=BOOTSTRAP
    )
    key = {"Authorization": f"Bearer {made.stdout.strip()}"}

    def ask(**given: Any) -> int:
        return httpx.post(f"{url}/v1/calibrate", json=QUESTION, **LOOPBACK, **given).status_code

    assert made.returncode == 0, made.stderr
    eventually(lambda: ask(headers=key) == 200)
    assert ask() == 401
    bootstrap = {"Authorization": f"Bearer {BOOTSTRAP}"}
    assert httpx.get(f"{url}/v1/admin/keys", headers=bootstrap, **LOOPBACK).status_code == 404
    arguments = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True).stdout
    assert f"--port {port}" in arguments
    assert BOOTSTRAP not in arguments


def answers(url: str) -> int | None:
    try:
        return httpx.get(url, **LOOPBACK).status_code
    except httpx.TransportError:
        return None


def test_every_scope_is_in_the_help(called):
    help_text = called("keys", "create", "--help").stdout

    assert all(scope.value in help_text for scope in Scope)

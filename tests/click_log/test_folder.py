"""Folders: on this machine and in an object store, whole files or none."""

import errno
import os
from typing import Any

import pyarrow.fs as pafs
import pytest

from app.click_log.folder import ClickLogUnavailable, FileEntry, Folder
from app.click_log.log import ClickLog
from tests.click_log.conftest import files
from tests.click_log.rows import DAY, START, TARGET, WINDOW, click, conversion, known_delays


def object_store() -> Folder:
    """Arrow's own store in memory, which takes the way of object stores."""
    return Folder.open("mock:///bucket/log")


@pytest.fixture(params=["local", "object store"])
def folder(request, tmp_path) -> Folder:
    """An empty folder of each sort."""
    return object_store() if request.param == "object store" else Folder.open(str(tmp_path))


def test_files_are_written_replaced_moved_and_deleted(folder):
    folder.write("a/b/one", b"1")
    folder.write("a/b/one", b"first")
    folder.write("a/two", b"22")
    folder.move("a/two", "c/d/two")

    assert (folder.read("a/b/one"), folder.read("c/d/two")) == (b"first", b"22")
    assert [entry for entry in folder.entries("a") if entry.size is not None] == [
        FileEntry("a/b/one", 5)
    ]
    folder.delete("a/b/one")
    folder.delete_folder("c")
    assert folder.read("a/b/one") is folder.read("c/d/two") is None


def test_what_is_not_there_is_no_error(folder):
    assert list(folder.entries("nothing")) == []
    assert folder.read("nothing") is None
    folder.delete("nothing")
    folder.delete_folder("nothing")
    folder.move("nothing", "here/nothing")
    assert folder.read("here/nothing") is None


def test_a_log_lives_in_an_object_store():
    log = ClickLog(object_store())
    log.write_clicks([click("a", 0.0), click("b", 10.0)])
    log.write_clicks([click("b", 10.0), click("c", DAY)])
    log.write_conversions([conversion("b", 15.0)])
    expected = {"a": None, "b": 5.0, "c": None}

    assert known_delays(log) == expected
    assert log.compact(START + DAY) == 1
    assert log.finalise({TARGET: WINDOW}, START + 30 * DAY) == 2
    assert known_delays(log) == expected
    assert log.expire(START + DAY) == 2
    assert known_delays(log) == {"c": None}


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_local_log_is_named_by_path_or_url(root, form):
    ClickLog.open(form.format(root)).write_clicks([click("a")])

    assert len(files(root)) == 1


def test_a_path_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ClickLog.open("some/log").write_clicks([click("a")])

    assert files(tmp_path)[0].startswith("some/log/clicks/date=2027-01-15/hour=08/part-")


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ClickLogUnavailable, match=r"click log 'ftp://x/y': .*ftp"):
        ClickLog.open("ftp://x/y")


def test_s3_is_known():
    folder = Folder.open("s3://a:b@bucket/log?region=eu-west-1")

    assert isinstance(folder._filesystem, pafs.S3FileSystem)


def test_a_disk_that_is_full_leaves_nothing_behind(log, root, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log.write_clicks([click("a")])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ClickLogUnavailable, match="No space left"):
            log.write_clicks([click("b")])

    assert known_delays(log) == {"a": None}
    assert len(files(root)) == 1


@pytest.mark.parametrize("call", ["write", "read"])
def test_a_folder_that_is_a_file_is_unavailable(tmp_path, call):
    (tmp_path / "log").write_bytes(b"no folder")
    folder = Folder.open(str(tmp_path / "log"))
    calls: dict[str, Any] = {
        "write": lambda: folder.write("clicks/x", b"x"),
        "read": lambda: folder.read("clicks/x"),
    }

    with pytest.raises(ClickLogUnavailable, match="the click log failed"):
        calls[call]()


def test_a_partition_that_never_stands_still_is_given_up(log, monkeypatch):
    log.write_clicks([click("a")])
    monkeypatch.setattr(log._folder, "read", lambda _: None)

    with pytest.raises(ClickLogUnavailable, match="hour=08 changes faster than it is read"):
        known_delays(log)

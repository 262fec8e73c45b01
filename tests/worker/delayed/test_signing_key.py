"""The key that models are signed with: given, or made once for all processes."""

import stat
from threading import Barrier, Thread

import pytest

from app.settings import Settings
from app.worker.model_cache import FILE, UnusableKey, signing_key

SECRET = "a secret of at least thirty-two characters"


def test_the_setting_comes_first(tmp_path):
    settings = Settings(data_dir=tmp_path, signing_key=SECRET)

    assert signing_key(settings) == SECRET.encode()
    assert list(tmp_path.iterdir()) == []


def test_without_one_a_key_is_made_and_kept(tmp_path):
    settings = Settings(data_dir=tmp_path / "new" / "folder")

    key = signing_key(settings)

    (file,) = settings.data_dir.iterdir()
    assert (file.name, file.read_bytes()) == (FILE, key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(key) == 64
    assert signing_key(settings) == key


def test_each_data_directory_has_its_own(tmp_path):
    keys = {signing_key(Settings(data_dir=tmp_path / name)) for name in "ab"}

    assert len(keys) == 2


def test_processes_that_begin_together_agree(tmp_path):
    settings, barrier, keys = Settings(data_dir=tmp_path), Barrier(8), []

    def begin():
        barrier.wait()
        keys.append(signing_key(settings))

    threads = [Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_a_key_that_was_cut_short_is_refused_and_not_shown(tmp_path):
    (tmp_path / FILE).write_text("short-secret\n")

    with pytest.raises(UnusableKey, match=r"must hold at least 32 bytes") as refused:
        signing_key(Settings(data_dir=tmp_path))

    assert "short-secret" not in str(refused.value)
    assert str(tmp_path / FILE) in str(refused.value)

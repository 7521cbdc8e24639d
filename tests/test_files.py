"""Files are whole or not there at all, also when the machine goes down in between."""

import os

import pytest

from splinescope._files import replacing


def test_a_file_reaches_the_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    """Without it a crash may leave the new name with nothing in it. Seen by the order of the calls."""
    target = tmp_path / "numbers.txt"
    target.write_text("old")
    calls = []
    sync, move = os.fsync, os.replace

    def synced(number):
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{number}") if os.path.exists("/proc/self/fd") else ""))
        sync(number)

    def moved(source, destination):
        calls.append(("replace", str(source)))
        move(source, destination)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", moved)
    with replacing(target) as partial:
        partial.write_text("new")
    assert [name for name, _ in calls] == ["fsync", "replace"]
    if calls[0][1]:
        assert calls[0][1] == calls[1][1] == str(partial)
    assert target.read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "numbers.txt"
    target.write_text("old")

    def fails(*_arguments, **_options):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, step, fails)
    with pytest.raises(OSError, match="no space left"), replacing(target) as partial:
        partial.write_text("new")
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["numbers.txt"]


def test_a_failing_writer_leaves_the_old_file(tmp_path):
    target = tmp_path / "numbers.txt"
    target.write_text("old")

    def interrupted():
        with replacing(target) as partial:
            partial.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["numbers.txt"]

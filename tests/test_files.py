"""Files are whole or not there at all, also when the machine goes down in between."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import splinescope as ss
from splinescope.support.archive import Kind, forget_pages, read_archive, write_archive
from splinescope.support.files import replacing


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
    assert [name for name, _ in calls] == ["fsync", "replace", "fsync"]
    if calls[0][1]:
        assert calls[0][1] == calls[1][1] == str(partial)
        assert calls[2][1] == str(tmp_path), "the new name reaches the disk too"
    assert target.read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_at_any_step_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "numbers.txt"
    target.write_text("old")

    def fails(*_arguments, **_options):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, step, fails)
    with (
        pytest.raises(OSError, match=r"numbers\.txt was not written.*no space left") as caught,
        replacing(target) as made,
    ):
        made.write_text("new")
    assert isinstance(caught.value, ss.SplinescopeError)
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["numbers.txt"]


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps"), reason="memory by file is read from /proc")
def test_what_is_read_of_a_mapped_file_does_not_stay_in_memory(tmp_path):
    """A tiling larger than memory is written from mapped files, and its checksum is read once more."""
    kind, numbers = Kind("numbers", 2), np.arange(6_000_000.0)

    def resident(path):
        """Bytes of a file that this process holds."""
        total, inside = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            if "-" in line.split(" ")[0]:
                inside = line.endswith(str(path))
            elif inside and line.startswith("Rss:"):
                total += 1024 * int(line.split()[1])
        return total

    first, second = tmp_path / "first", tmp_path / "second"
    write_archive(first, kind, {"numbers": numbers}, {})
    _, _, arrays = read_archive(first, kind, lambda header: {"numbers": (np.float64, 1)}, set())
    assert resident(first) < numbers.nbytes / 2
    assert arrays["numbers"].sum() == numbers.sum()
    assert resident(first) > 0.9 * numbers.nbytes, "so it is mapped, and this is how it is seen"
    write_archive(second, kind, arrays, {})
    assert resident(first) < numbers.nbytes / 2
    assert first.read_bytes() == second.read_bytes()


def test_pages_of_an_array_that_can_be_written_stay(tmp_path):
    path = tmp_path / "numbers"
    np.zeros(100_000).tofile(path)
    changed = np.memmap(path, np.float64, "c")
    changed[:] = 1.0
    forget_pages(changed)
    assert (changed == 1.0).all()


@pytest.mark.skipif(sys.platform == "win32", reason="files cannot be locked there as these are")
def test_what_a_killed_save_left_is_swept_at_the_next_one_and_what_is_being_written_stays(tmp_path):
    target = tmp_path / "numbers.txt"
    code = (
        "import os, signal; from splinescope.support.files import replacing, temporary_folder\n"
        f"with temporary_folder({str(target)!r}) as place, replacing({str(target)!r}) as partial:\n"
        "    (place / 'leaves').write_text('1'); partial.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    left = [file.name for file in tmp_path.iterdir()]
    assert len(left) == 2
    assert all(name.startswith(".") for name in left)
    (tmp_path / ".0123abcd.other.txt").touch()  # of another target: not looked at
    with replacing(target) as outer:
        outer.write_text("outer")
        with replacing(target) as inner:
            inner.write_text("inner")
        assert outer.read_text() == "outer"
    assert target.read_text() == "outer"
    assert sorted(file.name for file in tmp_path.iterdir()) == [".0123abcd.other.txt", "numbers.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders are not synced there")
def test_a_folder_that_cannot_be_synced_is_left_and_one_that_fails_is_told(tmp_path, monkeypatch):
    sync = os.fsync

    def write(number):
        def synced(file):
            if stat.S_ISDIR(os.fstat(file).st_mode):
                raise OSError(number, os.strerror(number))
            sync(file)

        monkeypatch.setattr(os, "fsync", synced)
        with replacing(tmp_path / "numbers.txt") as partial:
            partial.write_text("new")

    write(errno.EINVAL)  # a file system that has no such thing
    assert (tmp_path / "numbers.txt").read_text() == "new"
    with pytest.raises(ss.SplinescopeError, match="may not be on the disk"):
        write(errno.EIO)

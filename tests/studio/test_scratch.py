"""What pages have sent does not stay behind: not when a server ends, and not for long when it is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

import pytest

from splinescope.studio.scratch import Scratch

KILLED = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from splinescope.studio.scratch import Scratch
scratch = Scratch()
(scratch.uploads / "left.onnx").write_bytes(b"x")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def above(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="signals and locks are others there")
def test_the_next_server_removes_what_a_killed_one_left_and_nothing_else(above):
    precious = above / "precious"
    precious.mkdir()
    (precious / "lock").write_text("mine")
    (above / "splinescope-studio-link").symlink_to(precious)
    (above / "splinescope-studio-unlocked").mkdir()  # whoever made this, it was not a server
    runs = Scratch()
    before = set(above.iterdir())
    ended = subprocess.run([sys.executable, "-c", KILLED, str(above)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (left,) = set(above.iterdir()) - before
    assert (left / "uploads" / "left.onnx").exists()
    second = Scratch()
    assert set(above.iterdir()) - before == {second.uploads.parent}
    assert before <= set(above.iterdir())
    assert (precious / "lock").read_text() == "mine"
    assert runs.uploads.is_dir()


def test_a_server_that_ends_leaves_nothing(above):
    scratch = Scratch()
    (scratch.uploads / "mine.onnx").write_bytes(b"x")
    assert os.stat(scratch.uploads.parent).st_mode & 0o077 == 0  # nobody else reads it
    scratch.close()
    assert list(above.iterdir()) == []
    scratch.close()  # twice is no error


def test_where_there_are_no_locks_nothing_is_renamed(above, monkeypatch):
    """Windows renames no folder in which a file is open."""
    monkeypatch.setattr("splinescope.studio.scratch.locked", lambda _path: contextlib.nullcontext(False))
    monkeypatch.setattr("pathlib.Path.rename", None)
    scratch = Scratch()
    assert scratch.uploads.is_dir()
    scratch.close()
    assert list(above.iterdir()) == []

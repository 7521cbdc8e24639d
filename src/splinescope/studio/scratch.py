"""`Scratch`: a folder for what pages send, that does not outlive its server by long, even if the server is killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: nothing tells there whose server still runs, so nothing of another is removed
    fcntl = None  # type: ignore[assignment]

_NAME = "splinescope-studio-"
_LOCK = "lock"


class Scratch:
    """A new folder below the system's temporary one, locked for as long as this process lives.

    Those that killed servers of the same user have left behind, known by their name and a lock that nobody holds, are
    removed first. Whole files go to `uploads`; what is not whole yet goes beside it.
    """

    def __init__(self) -> None:
        above = Path(tempfile.gettempdir())
        for folder in above.glob(f"{_NAME}*"):
            _remove_if_left(folder)
        self.folder: Path
        lock: int | None = None
        if fcntl is None:  # no lock is asked for there, and a folder with an open file cannot be renamed
            self.folder = Path(tempfile.mkdtemp(prefix=_NAME))
        else:
            made = Path(tempfile.mkdtemp(prefix="splinescope-new-"))  # named when it is locked: others may look now
            lock = os.open(made / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.folder = made.rename(above / made.name.replace("splinescope-new-", _NAME))
        self.uploads = self.folder / "uploads"
        self.uploads.mkdir()
        self._end = weakref.finalize(self, _remove, self.folder, lock)

    def close(self) -> None:
        """Remove the folder; at the end of the process at the latest."""
        self._end()


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # a file that is open somewhere stays, on some systems
    if lock is not None:
        os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that is ours by its name, its owner and its lock, unless a server holds the lock."""
    if fcntl is None:
        return
    try:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # no lock in it, or removed meanwhile: not for us
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # its server runs
        os.close(lock)
    else:
        _remove(folder, lock)

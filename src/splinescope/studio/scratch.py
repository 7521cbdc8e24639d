"""`Scratch`: a folder for what pages send, that does not outlive its server by long, even if the server is killed."""

import os
import shutil
import stat
import tempfile
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path

from ..support.files import locked

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
        self.folder = Path(tempfile.mkdtemp(prefix="splinescope-new-"))
        (self.folder / _LOCK).touch()
        lock = ExitStack()
        if lock.enter_context(locked(self.folder / _LOCK)):  # named only now: another server may look for the name
            self.folder = self.folder.rename(above / self.folder.name.replace("splinescope-new-", _NAME))
        self.uploads = self.folder / "uploads"
        self.uploads.mkdir()
        self._end = weakref.finalize(self, _remove, self.folder, lock)

    def close(self) -> None:
        """Remove the folder; at the end of the process at the latest."""
        self._end()


def _remove(folder: Path, lock: ExitStack) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # a file that is open somewhere stays, on some systems
    lock.close()


def _remove_if_left(folder: Path) -> None:
    """Remove a folder that is ours by its name, its owner and its lock, unless a server holds the lock."""
    with suppress(OSError):  # no lock in it, or removed meanwhile: not for us
        about = folder.lstat()
        if stat.S_ISDIR(about.st_mode) and (folder / _LOCK).is_file():
            with locked(folder / _LOCK, wait=False) as held:
                if held and about.st_uid == os.getuid():
                    shutil.rmtree(folder, ignore_errors=True)

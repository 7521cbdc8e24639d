"""Writing files so that they are whole or not there at all."""

import errno
import importlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .errors import InputError, NotWrittenError, did_you_mean

if sys.platform != "win32":
    import fcntl

_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EBADF}
"""What file systems say that cannot lock a file, or cannot sync a folder."""


def check_writable(path: str | os.PathLike[str]) -> Path:
    """`path` as a Path, refused if it is a folder or in none: before work whose result is to be written there."""
    target = _path(path, "path must be a file name")
    if target.is_dir():
        raise InputError(f"{target} cannot be written: it is a folder.")
    if not target.parent.is_dir():
        raise InputError(f"{target} cannot be written: the folder {target.parent} does not exist.")
    return target


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """`folder` as a Path, made if it is not there; refused if it cannot be."""
    place = _path(folder, "folder must be the name of a folder ('.' is the current one)")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file of that name is there" if place.is_file() else error.strerror or type(error).__name__
        raise InputError(f"folder must be a folder that exists or can be made, got {str(place)!r}: {why}.") from error
    return place


def _path(given: str | os.PathLike[str], must: str) -> Path:
    try:
        path = Path(given)
    except TypeError as error:
        raise InputError(f"{must}, got {type(given).__name__}.") from error
    if not os.fspath(given):
        raise InputError(f"{must}, got ''.")
    return path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`, moved onto it once the block has finished; it is on the disk by then.

    If the block fails or is interrupted, the temporary file is removed and `path` stays as it was. Temporary files of
    `path` that processes left which were killed are removed. Raises `NotWrittenError` if the system refused.
    """
    target = check_writable(path)
    # the ending stays last: writers such as matplotlib choose the format by it
    partial = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        remove_unfinished(target.parent, target.name)
        partial.touch()
        with locked(partial):
            mode = (target if target.exists() else partial).stat().st_mode
            yield partial
            with partial.open("rb") as written:
                os.fsync(written.fileno())
            partial.chmod(mode & 0o777)  # some writers give files to their owner only
            os.replace(partial, target)
        _sync_folder(target.parent)
    except NotWrittenError:  # of a file within the block
        raise
    except OSError as error:
        raise NotWrittenError(f"{target} was not written, what was there before stays: {error}.") from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def temporary_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder beside `path` for what a file is made from, removed at its end; those of killed processes too."""
    target = check_writable(path)
    place = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        remove_unfinished(target.parent, target.name)
        place.mkdir(0o700)
    except OSError as error:
        raise NotWrittenError(f"{target} was not written, what was there before stays: {error}.") from error
    try:
        with locked(place):
            yield place
    finally:
        shutil.rmtree(place)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a file or folder for other such blocks, in any process, until this one ends or its process dies.

    False if another holds it and `wait` is False, or where the system has no such locks (Windows).
    """
    if sys.platform == "win32":
        yield False
        return
    number = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            held = True
        except OSError as error:
            if error.errno not in {*_CANNOT, errno.EWOULDBLOCK}:
                raise
            held = False
        yield held
    finally:
        os.close(number)


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Remove what killed processes left in a folder of `name`, or of any file; what is being written stays.

    Where files cannot be locked, nobody knows which those are, and all stay.
    """
    ending = "" if name is None else re.escape(name) + "$"
    for left in folder.iterdir():
        if re.match(rf"\.[0-9a-f]{{8}}\.{ending}", left.name):
            with suppress(FileNotFoundError), locked(left, wait=False) as held:
                if held:  # so nobody else holds it
                    shutil.rmtree(left) if left.is_dir() else left.unlink()


def _sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk; Windows, and some network file systems, do that in their own time."""
    if sys.platform == "win32":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise NotWrittenError(f"the names in {folder} may not be on the disk: {error}.") from error
    finally:
        os.close(number)


@contextmanager
def current_folder_first() -> Iterator[None]:
    """Modules are looked for in the current folder first, also those that a factory imports when it is called."""
    sys.path.insert(0, "")
    try:
        yield
    finally:
        if "" in sys.path:  # unless the user's code has taken it out
            sys.path.remove("")


def imported(name: str) -> Any:
    """What "package.module:name" names, its package imported as Python would from here."""
    module, _, attribute = name.partition(":")
    try:
        with current_folder_first():
            found = vars(importlib.import_module(module))
    except (ImportError, ValueError) as error:
        raise InputError(f"MODEL must be package.module:function, {name!r} was not found: {error}.") from error
    if attribute not in found:
        near = did_you_mean(attribute, found)
        raise InputError(f"MODEL must be package.module:function; {module} has no {attribute!r}{near}")
    return found[attribute]

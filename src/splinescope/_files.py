"""Writing files so that they are whole or not there at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._errors import InputError, NotWrittenError


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
    """A temporary path beside `path`, moved onto it once the block has finished.

    If the block fails or is interrupted, the temporary file is removed and `path` stays as it was.

    Raises:
        NotWrittenError: The system refused: a full disk, no permission.

    Example:
        >>> with replacing("numbers.txt") as partial:    # doctest: +SKIP
        ...     partial.write_text("1 2 3")
    """
    target = check_writable(path)
    # the ending stays last: writers such as matplotlib choose the format by it
    partial = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        partial.touch()
        mode = (target if target.exists() else partial).stat().st_mode
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.chmod(mode & 0o777)  # some writers give files to their owner only
        os.replace(partial, target)
    except NotWrittenError:  # of a file within the block
        raise
    except OSError as error:
        raise NotWrittenError(f"{target} was not written, nothing is left of it: {error}.") from error
    finally:
        partial.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what `replacing` left in a folder where its process was killed: only when nobody writes there."""
    for file in folder.iterdir():
        if re.match(r"\.[0-9a-f]{8}\.", file.name):
            file.unlink(missing_ok=True)

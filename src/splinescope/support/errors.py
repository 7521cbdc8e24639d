"""The errors splinescope raises on purpose, all under one base class."""

from __future__ import annotations

from collections.abc import Iterable


class SplinescopeError(Exception):
    """Base of every error that splinescope raises on purpose."""


class InputError(SplinescopeError, ValueError):
    """An argument does not fit: the message says what was expected, what came, what is possible."""


class UnsupportedModelError(SplinescopeError):
    """The model has parts that are not piecewise affine; the message lists all of them with their paths."""


class MissingExtraError(SplinescopeError, ImportError):
    """An optional dependency is absent; the message gives the exact pip command."""


class FileFormatError(SplinescopeError, ValueError):
    """A file is corrupt, foreign or of an unknown version; nothing in it was executed."""


class NotWrittenError(SplinescopeError, OSError):
    """A file could not be written (a full disk, no permission); nothing is left of it, what was there before stays."""


class LimitReached(SplinescopeError):
    """A limit (tiles, time) stopped the work. What was finished is in `partial`, marked incomplete."""

    def __init__(self, message: str, partial: object) -> None:
        super().__init__(message)
        self.partial = partial


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: what it was probably meant to be, or a full stop."""
    import difflib

    if not isinstance(given, str):
        return "."
    names = list(known)
    plain = {name.lower(): name for name in names}
    near = difflib.get_close_matches(given, names, n=1)
    near += [plain[name] for name in difflib.get_close_matches(given.lower(), plain, n=1)]
    return f": did you mean {near[0]!r}?" if near else "."

"""The errors splinescope raises on purpose, all under one base class."""

from __future__ import annotations

import sys
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


def answer_misspellings(module: str) -> None:
    """Have a module answer an attribute that it has not with the nearest of its public names.

    Set from here, and not as a function of the module's own, so that type checkers still know every name.
    """
    part = sys.modules[module]

    def missing(name: str) -> object:
        message = f"{module} has no attribute {name!r}{did_you_mean(name, part.__all__)}"
        raise AttributeError(message, name=None, obj=None)  # a name would have Python suggest a second time

    part.__getattr__ = missing  # type: ignore[method-assign]

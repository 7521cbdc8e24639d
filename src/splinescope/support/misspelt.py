"""`answering`: a part of the package that answers a misspelt name or keyword with the nearest that it has."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .errors import did_you_mean


def answering(part: ModuleType) -> None:
    """Have a loaded part name what was probably meant, by its own names and by the keywords of its functions."""
    names = part.__all__

    def absent(name: str) -> object:
        told = f"{part.__name__} has no attribute {name!r}{did_you_mean(name, names)}"
        raise AttributeError(told, name=None, obj=None)  # a name would have Python suggest a second time

    part.__getattr__ = absent  # type: ignore[method-assign]
    for name in names:
        function = getattr(part, name)
        if inspect.isfunction(function):
            asked = _suggesting(function)
            for module in (part, sys.modules[function.__module__]):  # pickle looks where it was defined
                setattr(module, name, asked)


def _suggesting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; Python 3.13 names the nearest keyword by itself."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            known = inspect.signature(function).parameters
            unknown = [name for name in keywords if name not in known]
            if not unknown or error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            told = f"{function.__name__}() has no argument {unknown[0]!r}{did_you_mean(unknown[0], known)}"
        raise TypeError(told)

    return call

"""How every hot loop is compiled: by numba, once per machine, kept beside the source.

numba's own cache follows the file of a function but not what that function calls, so that a change in one kernel left
the old machine code of its callers in use; and it loads all of its type system (0.3 s) before it takes compiled code
from the disk. Here the cache is keyed by the contents of a kernel's whole folder, and loading does only what it must.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
import threading
import time
import warnings
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from .interrupt import held_back
from .progress import silenced
from .threads import ALONE

_PATIENCE = 2.0  # seconds before a wait is told
_BETWEEN_LINES = 5.0  # seconds


@cache
def folder_digest(folder: Path) -> bytes:
    """SHA-256 of the names and contents of the Python files in a folder."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.digest()


class _FolderCache(FunctionCache):
    """numba's cache of one function, stale as soon as any file of its folder has changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = (
            self._cache_file._source_stamp,
            folder_digest(Path(function.__code__.co_filename).parent),
        )

    def load_overload(self, signature: Any, target: Any) -> Any:
        rtsys.initialize(target)  # what compiled code calls; numba would also load what only a compilation needs
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target)
        if found is None:
            notice.begin(self._py_func.__name__)
        return found


class _Notice:
    """Says what a wait is for: once per process that kernels are compiled, then now and then which one it is at.

    Entered around every call that may compile; `begin` says that it does. Processes that share work leave it to the
    first one.
    """

    def __init__(self) -> None:
        self._calls: list[str | None] = []  # a kernel may ask for another one while it is compiled
        self._done = 0
        self._next: float | None = None  # when to speak again; None before the first word
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        self._calls.append(None)

    def __exit__(self, *error: object) -> None:
        self._done += self._calls.pop() is not None
        if not self._calls and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begin(self, name: str) -> None:
        """A kernel of this name is not known on this machine: it is compiled now."""
        if self._calls:
            self._calls[-1] = name
        if silenced() or multiprocessing.current_process().name != "MainProcess":
            return
        if self._next is None and self._timer is None:
            self._timer = threading.Timer(_PATIENCE, self._first)
            self._timer.daemon = True
            self._timer.start()
        elif self._next is not None and time.monotonic() >= self._next:
            self._say(f"splinescope: compiling kernels: {self._done} done, now {name}")

    def _first(self) -> None:
        name = next((name for name in reversed(self._calls) if name is not None), None)
        if self._next is None and name is not None:
            self._say(
                "splinescope: compiling kernels, once on this machine (`splinescope warmup` does it ahead): "
                f"{self._done} done, now {name}"
            )

    def _say(self, text: str) -> None:
        self._next = time.monotonic() + _BETWEEN_LINES
        print(text, file=sys.stderr, flush=True)


notice = _Notice()


def _undisturbed(compiling: Callable[..., Any]) -> Callable[..., Any]:
    """No model is read while a kernel is compiled, and Ctrl-C waits: LLVM calls back into Python, where it is lost."""

    @wraps(compiling)
    def compile_whole(*arguments: Any, **options: Any) -> Any:
        with ALONE, held_back(), notice:
            return compiling(*arguments, **options)

    return compile_whole


@cache
def _tell_that_nothing_is_kept() -> None:
    warnings.warn(
        "Compiled kernels cannot be kept: neither the folder of splinescope nor the user's cache can be written to. "
        "Each process compiles them anew, for seconds; set NUMBA_CACHE_DIR to a folder that can be.",
        stacklevel=2,
    )


def jit(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`numba.njit` with these options, without the interpreter's lock, cached on disk: `@jit` or `@jit(inline=...)`."""
    if function is None:
        return partial(jit, **options)
    compiled: Any = numba.njit(nogil=True, **options)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT gives the function itself, to be run step by step
        try:
            compiled._cache = _FolderCache(function)
        except RuntimeError:  # numba found no folder that can be written to, not even in the user's home
            _tell_that_nothing_is_kept()
        compiled.compile = _undisturbed(compiled.compile)
    return compiled


in_place = jit(_nrt=False)
"""`jit` for functions that only read and write arrays they are given. Numba then counts no references: two locked
instructions wherever an array is handed to an inlined helper or a row of it gets a name, 40% of the time of a cut.
Compiling a function that makes an array fails."""

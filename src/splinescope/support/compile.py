"""How every hot loop is compiled: by numba, once per machine, kept beside the source.

numba's own cache follows the file of a function but not what that function calls; here it is keyed by the contents of
a kernel's whole folder, and loading does only what it must.
"""

import hashlib
import math
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.runtime import rtsys

from .interrupt import held_back
from .progress import silenced
from .threads import ALONE

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

    Processes that share work leave it to the first one.
    """

    def __init__(self) -> None:
        self.quiet = False  # while `warmup` shows a progress of its own
        self.seconds = 0.0  # that compiling has taken so far
        self._begun = 0
        self._next = -math.inf  # when to speak again

    def begin(self, name: str) -> None:
        """A kernel of this name is not known on this machine: it is compiled now."""
        once = "" if self._begun else ", once on this machine (`splinescope warmup` does it ahead)"
        silent = self.quiet or silenced() or multiprocessing.parent_process() is not None
        if time.monotonic() >= self._next and not silent:
            self._next = time.monotonic() + _BETWEEN_LINES
            print(f"splinescope: compiling kernels{once}: {self._begun} begun, now {name}", file=sys.stderr, flush=True)
        self._begun += 1

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Counts the seconds in here if a kernel is compiled meanwhile, and once those that it calls."""
        begun, before, start = self._begun, self.seconds, time.monotonic()
        yield
        if self._begun > begun:
            self.seconds = before + time.monotonic() - start


notice = _Notice()


def _undisturbed(compiling: Callable[..., Any]) -> Callable[..., Any]:
    """No model is read while a kernel is compiled, and Ctrl-C waits: LLVM calls back into Python, where it is lost."""

    @wraps(compiling)
    def compile_whole(*arguments: Any, **options: Any) -> Any:
        with ALONE, held_back(), notice.timed():
            return compiling(*arguments, **options)

    return compile_whole


def _alike_for_frozen_arrays(compiled: Any) -> Callable[..., Any]:
    """What compiles for given arguments: arrays of a tiling, which are read-only, take what the engine's are cut with.

    For numba they are of another type, and half of all compilations were second ones for these.
    """
    compile_anew = compiled._compile_for_args

    def compile_for(*arguments: Any) -> Any:
        given = tuple(map(compiled.typeof_pyval, arguments))
        plain = tuple(kind.copy(readonly=False) if isinstance(kind, numba.types.Array) else kind for kind in given)
        if plain == given:
            return compile_anew(*arguments)
        entry = compiled.compile(plain)
        compiled._insert([kind._code for kind in given], entry)
        return entry

    return compile_for


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
        compiled._compile_for_args = _alike_for_frozen_arrays(compiled)
    return compiled


in_place = jit(_nrt=False)
"""`jit` for functions that only read and write arrays they are given. Numba then counts no references: two locked
instructions wherever an array is handed to an inlined helper or a row of it gets a name, 40% of the time of a cut.
Compiling a function that makes an array fails."""

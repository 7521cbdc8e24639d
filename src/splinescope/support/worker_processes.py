"""Lists of independent items shared between processes, by joblib: on this machine, or wherever its backend runs.

`joblib.parallel_config(backend="dask")` (or ray) around a call sends the same work to a cluster.
"""

import hashlib
import importlib
import inspect
import io
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import pairwise, takewhile
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from .archive import Kind, read_archive, write_archive
from .checks import check_whole, require
from .dask_workers import dask_backend, on_dask
from .errors import FileFormatError, InputError, SplinescopeError
from .files import check_folder
from .threads import ALONE

Arrays = dict[str, np.ndarray]
"""What a piece of work returns: arrays by name (tensors are forty times slower to send)."""

R = TypeVar("R")


def share(
    work: Callable[..., R], items: Sequence[tuple[Any, ...]], names: Sequence[str], *, workers: int,
    folder: str | os.PathLike[str] | None = None, called: Sequence[str] | None = None,
    is_finished: Callable[[R], bool] = lambda result: True, check: Callable[[str, int, Arrays], None] | None = None,
) -> Generator[tuple[int, R], None, None]:  # fmt: skip
    """`work(*item)` for every item, by so many processes: (number of the item, result) as they come.

    What is finished is kept when a worker dies: the rest is tried twice more (the first death may have been one between
    two calls, seen too late), then an error names it. With a folder, each result is also written there under its name
    as soon as it is there, and found there by a second run, whatever ended the first: an error, Ctrl-C, a full disk. (A
    backend that gives all results at the end keeps none before.)

    Args:
        work: A function of this package or another importable module.
        items: Its arguments; numpy arrays travel by shared memory.
        names: One per item: what its file is called. With a folder they must tell different work apart.
        workers: Number of processes.
        folder: Where finished results, which must be `Arrays`, are kept, as files with a checksum.
        called: What errors call the items; `names` if None.
        is_finished: Which results may be kept there.
        check: Refuses arrays of a file that cannot be the result of an item: whoever can write there made them.
    """
    joblib = require("joblib", "parallel")
    place = None if folder is None else check_folder(folder)
    called = names if called is None else called
    done: set[int] = set()
    if place is not None:
        for i, name in enumerate(names):
            if (place / f"{name}{ENDING}").exists():
                done.add(i)
                yield i, _read(place / f"{name}{ENDING}", i, check)  # type: ignore[misc]
    for attempt in (1, 2, 3):
        left = [i for i in range(len(items)) if i not in done]
        if not left:
            return
        if place is not None and not os.access(place, os.W_OK):
            raise InputError(f"folder must be one that can be written to, which {str(place)!r} cannot.")
        try:
            with _started(joblib, work, items, left, workers, attempt) as results:
                for i, result in results:
                    done.add(i)
                    if place is not None and is_finished(result):
                        _write(place / f"{names[i]}{ENDING}", called[i], result)
                    yield i, result
        except BrokenProcessPool as error:  # killed, out of memory: joblib's own error is one of these
            lost = ", ".join(called[i] for i in left if i not in done)
            if attempt == 3:
                kept = "" if place is None else f" What is finished is in {place}: the same call goes on from there."
                raise SplinescopeError(f"A worker process died three times; not done: {lost}.{kept}") from error


@contextmanager
def _started(
    joblib: Any, work: Callable[..., R], items: Sequence[tuple[Any, ...]], chosen: Sequence[int], workers: int,
    attempt: int,
) -> Iterator[Iterable[tuple[int, R]]]:  # fmt: skip
    """(i, work(*items[i])) of the chosen items, one by one as they come, or all at the end by backends like ray's.

    The rest is cancelled when the block ends early, without a word: that is meant.
    """
    backend = dask_backend(joblib)
    if backend is not None:
        results: Any = on_dask(backend, work, items, chosen, alone=attempt > 1)
    else:
        stopped = threading.Event()
        # A process that gets nothing to do takes its time to start all the same; but of one joblib makes this one, and
        # work that kills its process must not kill it.
        workers = min(workers, max(2, len(chosen)))
        calls = (
            joblib.delayed(_numbered)(work, i, items[i]) for i in takewhile(lambda _: not stopped.is_set(), chosen)
        )
        try:
            parallel = joblib.Parallel(n_jobs=workers, return_as="generator_unordered")
        except ValueError:  # the backend's
            parallel = joblib.Parallel(n_jobs=workers)
        results = parallel(calls)
    ended = threading.Event()
    try:
        if backend is None:
            _watch(getattr(getattr(parallel, "_backend", None), "_workers", None), ended)
        yield results
    finally:
        if isinstance(results, Generator):
            if backend is None and inspect.getgeneratorstate(results) != inspect.GEN_CLOSED:
                # loky's thread ends with a KeyError that everybody sees if it is told to kill its workers between
                # the moment it was given a call and the moment it passes that on: no more calls, and time to pass on.
                stopped.set()
                time.sleep(_TIME_TO_PASS_ON)
            with ALONE, warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*tasks.*(not used|cancelled)")
                results.close()
        ended.set()


_TIME_TO_PASS_ON = 0.1


def _watch(executor: Any, ended: threading.Event) -> None:
    """Look after the processes of a loky executor until the work has ended, so that no death of one blocks for ever.

    loky's thread sees deaths, but not while it reads a result whose sender died in the middle: this process and the
    other workers can write to the pipe too, so it does not end. Here they are ended, and the pipe with them.
    """
    manager = getattr(executor, "_executor_manager_thread", None)
    if manager is None or sys.platform == "win32":  # another backend, or no processes; there, messages come whole
        return

    def look() -> None:
        while manager.is_alive() and not manager.executor_flags.broken:
            workers = list(manager.processes.values())
            died = connection.wait([worker.sentinel for worker in workers], timeout=_LOOK)
            # those that end as they should are taken off the list before
            if any(worker.sentinel in died and manager.processes.get(worker.pid) is worker for worker in workers):
                break
            if ended.is_set() and not manager.executor_flags.broken:
                return
        manager.join(_PATIENCE)
        if manager.is_alive():
            kill = importlib.import_module("joblib.externals.loky.backend.utils").kill_process_tree
            for worker in list(manager.processes.values()):
                kill(worker)
            end = manager.result_queue._writer
            handle, end._handle = end._handle, None  # first: loky's thread goes on at once, and closes it too
            if handle is not None:
                os.close(handle)

    threading.Thread(target=look, name="splinescope-workers", daemon=True).start()


_LOOK = 0.5  # seconds between looks at whether the work has ended
_PATIENCE = 0.5  # seconds that loky has to see a death itself: it does at once, unless it is reading


def call_each(
    function: Callable[..., R], arguments: Sequence[tuple[Any, ...]], names: Sequence[str], *, workers: int
) -> Iterator[tuple[int, R]]:
    """`function(*arguments[i])` by so many processes, as `share` does; any function, arguments and results.

    They travel as bytes that cloudpickle makes: partial functions of live modules, functions of a notebook.
    """
    sent = packed(function)
    items = [(sent, packed(each)) for each in arguments]
    for i, result in share(_called, items, names, workers=check_whole(workers, "workers")):
        yield i, unpacked(result["result"])


def by_rows(function: Callable[..., R], rows: Sequence[Any], *, workers: int, what: str) -> list[R]:
    """`function(*blocks)` on blocks of rows (tensors `[N, ...]`, or None), by so many processes; results in order."""
    check_whole(workers, "workers")
    count = len(next(each for each in rows if each is not None))
    parts = blocks(count, workers)
    arguments = [tuple(None if each is None else each[part].clone() for each in rows) for part in parts]
    names = [f"{what} {part.start} to {part.stop - 1}" for part in parts]
    results = dict(call_each(function, arguments, names, workers=workers))
    return [results[i] for i in range(len(parts))]


_FUNCTION: dict[bytes, Callable[..., Any]] = {}


def _called(function: np.ndarray, arguments: np.ndarray) -> Arrays:
    """One call, in a process of its own; the last function is kept, with whatever it knows of its model by then."""
    key = hashlib.sha256(function.tobytes()).digest()
    if key not in _FUNCTION:
        _FUNCTION.clear()
        _FUNCTION[key] = unpacked(function)
    return {"result": packed(_FUNCTION[key](*unpacked(arguments)))}


def blocks(count: int, workers: int) -> list[slice]:
    """Rows 0..count in parts for so many workers; more parts than workers, as they differ in cost."""
    parts = max(1, min(count, _PARTS_PER_WORKER * workers))
    ends = [count * i // parts for i in range(parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


_PARTS_PER_WORKER = 4


def packed(value: Any) -> np.ndarray:
    """Anything that cloudpickle takes (modules, functions of a notebook) as bytes that travel by shared memory."""
    cloudpickle = require("cloudpickle", "parallel")
    stream = io.BytesIO()
    try:
        cloudpickle.dump(value, stream)
    except (TypeError, AttributeError, ValueError, pickle.PicklingError) as error:
        raise InputError(
            f"workers= needs a model, data and functions that can be sent to other processes (pickled): {error}. A "
            "lock, an open file or a live connection among their attributes cannot; without workers= it need not be."
        ) from error
    return np.frombuffer(stream.getvalue(), np.uint8)


def unpacked(data: np.ndarray) -> Any:
    """What `packed` was given; only for bytes that the calling process made."""
    return pickle.loads(data.tobytes())


def _numbered(work: Callable[..., R], number: int, item: tuple[Any, ...]) -> tuple[int, R]:
    return number, work(*item)


def _write(target: Path, name: str, result: Any) -> None:
    try:
        write_archive(target, _KIND, result, {"work": target.stem})
    except OSError as error:
        raise SplinescopeError(
            f"{target.parent} cannot take {name}: {error.__cause__ or error}. What was finished before is there: the "
            "same call goes on from there."
        ) from error


def _read(path: Path, number: int, check: Callable[[str, int, Arrays], None] | None) -> Arrays:
    try:
        name, header, mapped = read_archive(path, _KIND, None)
        if header.get("work") != path.stem:
            raise FileFormatError(f"{path} holds other work than its name says.")
        arrays = {key: array.copy() for key, array in mapped.items()}  # as a worker sends them: they can be written
        if check is not None:
            check(name, number, arrays)
    except (FileFormatError, InputError) as error:  # the second: a folder, or what else is no file
        raise FileFormatError(f"{error} Remove it, and it is made again.") from error
    return arrays


ENDING = ".safetensors"
"""Of the names of files with results."""

_KIND = Kind("result", 1)

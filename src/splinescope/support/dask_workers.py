"""Work sent straight to a dask cluster, for `worker_processes`.

joblib's own dask backend waits for ever for a task whose worker died: it is told of results alone, not of such errors.
"""

import importlib
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import numpy as np

from .threads import ALONE

R = TypeVar("R")

_WORTH_SHARING = 1000  # bytes of an array that comes again: it travels once


def dask_backend(joblib: Any) -> Any | None:
    """joblib's active backend, if that is dask's; else None."""
    backend = joblib.parallel.get_active_backend()[0]
    return backend if type(backend).__name__ == "DaskDistributedBackend" else None


def on_dask(
    backend: Any, work: Callable[..., R], items: Sequence[tuple[Any, ...]], chosen: Sequence[int], *, alone: bool
) -> Generator[tuple[int, R], None, None]:
    """(i, work(*items[i])) for the chosen items, as they come, by the workers of the backend's client.

    Work whose worker died is given to another as often as dask's scheduler allows (`allowed-failures`). It counts all
    work that a worker had before it, so that some may be lost without blame: `alone`, one after the other, none is.
    Raises BrokenProcessPool if that was not enough; all other work is done by then.
    """
    distributed, client = importlib.import_module("distributed"), backend.client
    options = {"pure": False, **getattr(backend, "submit_kwargs", {})}
    seen = Counter(id(each) for i in chosen for each in items[i])
    shared: dict[int, Any] = {}  # by id

    def sent(value: Any) -> Any:
        """A shared array as a task of its own, which dask runs again where its holder died (scattered, it is lost)."""
        if not (isinstance(value, np.ndarray) and value.nbytes > _WORTH_SHARING and seen[id(value)] > 1):
            return value
        if id(value) not in shared:
            shared[id(value)] = client.submit(_itself, value, **options)
        return shared[id(value)]

    running, numbers = distributed.as_completed(raise_errors=False), {}
    waiting = list(reversed(chosen))
    died: BaseException | None = None

    def start() -> None:
        if waiting:
            i = waiting.pop()
            with ALONE, warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                future = client.submit(work, *map(sent, items[i]), **options)
            numbers[future] = i
            running.add(future)

    try:
        for _ in range(1 if alone else 2 * max(1, sum(client.ncores().values()))):
            start()
        with backend.retrieval_context():
            for future in running:
                i = numbers.pop(future)
                start()
                try:
                    result = future.result()
                except (distributed.KilledWorker, CancelledError) as error:
                    died = error
                    continue
                del future  # the cluster may forget it
                yield i, result
    finally:
        client.cancel(list(numbers))
    if died is not None:
        raise BrokenProcessPool(f"dask: {died}") from died


def _itself(value: Any) -> Any:
    return value

"""Work that ends its process: what a killed worker, or one out of memory, looks like from outside."""

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np


def once(number: int, mark: str, common: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Number 1 dies while a mark (one, some with colons between, or "": always) is not there yet."""
    for each in mark.split(os.pathsep):
        if number == 1 and not os.path.exists(each):
            if each:
                Path(each).touch()
            os._exit(9)
    return {"number": np.array([number])}


def while_sending(number: int, mark: str) -> dict[str, np.ndarray]:
    """Number 1 is killed in the middle of its result, each time if the mark is empty, else if it is not there yet."""
    if number == 1 and not (mark and os.path.exists(mark)):
        if mark:
            Path(mark).touch()

        def half(connection: Connection, data: bytes) -> None:
            os.write(connection.fileno(), data[: max(1, min(len(data) // 2, 4000))])
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send = half  # type: ignore[method-assign]
    return {"number": np.full(100_000, number)}

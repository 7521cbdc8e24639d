"""Ctrl-C on the command line: one line and exit code 130, whenever it comes; and where it must wait.

While a verb is at work Ctrl-C is an exception, so that the verb can put its things away. Before, after, and where
nobody could catch an exception (in a destructor, in a callback) the line is written and the process ends at once.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

CODE = 130  # 128 + SIGINT, as shells expect
LINE = "Interrupted."

_at_work = False


def watch() -> None:
    """Answer Ctrl-C from here to the end of the process."""
    signal.signal(signal.SIGINT, _answer)
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # registered first, so run last
    sys.unraisablehook = _unraisable


@contextmanager
def at_work() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt in here."""
    global _at_work
    _at_work = True
    try:
        yield
    finally:
        _at_work = False


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: where an exception would be raised in a callback, and be lost."""
    answer = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(answer):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, answer)
        if came:
            answer(*came[0])


def _answer(number: int, frame: FrameType | None) -> None:
    global _at_work
    if _at_work:
        _at_work = False  # a second one does not wait
        raise KeyboardInterrupt
    _leave()


def _unraisable(unraisable: Any) -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _leave()
    sys.__unraisablehook__(unraisable)


def _leave() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.write(2, f"{LINE}\n".encode())
    os._exit(CODE)

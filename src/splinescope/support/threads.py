"""Several threads at a time: what belongs to the process is changed by one of them, and always put back."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

ALONE = threading.RLock()
"""Held while a model is read or watched, and wherever warning filters, stderr, logging or hooks are changed.

So it is while a part is loaded or a kernel compiled: torch puts others in the place of `min` and `len` while it reads a
model, and numba takes them as it finds them. Who holds it waits for no thread that may ask for it.
"""


class SharedSetting:
    """A setting of the process that several threads may want at once: the first one makes it, the last undoes it."""

    def __init__(self, setting: Callable[[], AbstractContextManager[Any]]) -> None:
        self._setting, self._inside, self._lock = setting, 0, threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The setting, for the time of the context."""
        with self._lock:
            if self._inside == 0:
                self._made = self._setting()
                self._made.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._made.__exit__(None, None, None)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Torch's own threads would compete with ours and change last bits; on few rows they wait more than they work.

    Torch keeps the number for each thread, and a new thread takes the last one that was set anywhere. So that one
    which starts meanwhile does not keep ours, a short-lived thread sets the old number again.
    """
    import torch  # takes seconds, which `splinescope --help` would wait for

    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    try:
        torch.set_num_threads(1)
        elsewhere = threading.Thread(target=torch.set_num_threads, args=(before,))
        elsewhere.start()
        elsewhere.join()
        yield
    finally:
        torch.set_num_threads(before)

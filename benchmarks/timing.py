"""How competitors are timed on a noisy machine."""

from __future__ import annotations

import time
from collections.abc import Callable


def race(competitors: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Least CPU seconds of each, over interleaved rounds after one warm-up."""
    best = dict.fromkeys(competitors, float("inf"))
    for number in range(rounds + 1):
        for name, work in competitors.items():
            start = time.process_time()
            work()
            if number:
                best[name] = min(best[name], time.process_time() - start)
    return best

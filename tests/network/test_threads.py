"""Models are read, tiled and watched by several threads at a time: results are the serial ones, and nothing is left."""

import logging
import random
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as of_all

import splinescope as ss
from splinescope.network.watching.intercept import Hooked

LINE = ss.Slice.segment([-2.0, 0.0], [2.0, 1.0])


def bent(x: Tensor) -> Tensor:
    return x.reshape(len(x), -1).relu()  # by a length, which is read in a second way


class Own(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last, self.bend = nn.Linear(2, width), nn.Linear(width, 2), bent

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.bend(self.first(x)))


def model(number: int) -> nn.Module:
    torch.manual_seed(number)
    width = 3 + number % 4
    plain = [nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 2)]
    return (Own(width) if number % 2 else nn.Sequential(*plain)).eval()


def points(number: int) -> Tensor:
    return torch.randn(3, 2, generator=torch.Generator().manual_seed(number))


CALLS: list[Callable[[nn.Module, Tensor], Any]] = [
    lambda net, x: ss.trace(net, x).fingerprint(),
    lambda net, x: ss.tessellate(net, LINE, threads=1).count,
    lambda net, x: ss.local_complexity(net, x, radius=0.3, directions=2).counts.tolist(),
    lambda net, x: ss.local_map(net, x[:1]).matrix().tolist(),
    lambda net, x: [net(x).tolist() for _ in range(20)],  # beside
]


def state() -> list[Any]:
    """What belongs to the process."""
    return [
        sys.stdout, sys.stderr, logging.root.manager.disable, logging.getLogger("torch").level, list(warnings.filters),
        torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state().tolist(),
        random.getstate(), np.random.get_state()[1].tolist(), len,  # noqa: NPY002
        list(of_all._global_forward_hooks), list(of_all._global_forward_pre_hooks), "len" in globals(),
        torch.backends.mha.get_fastpath_enabled(), torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),
    ]  # fmt: skip


def check(threads: int, calls: int) -> None:
    jobs = [(CALLS[i % len(CALLS)], i) for i in range(calls)]
    serial = [call(model(i), points(i)) for call, i in jobs]
    nets = [model(i) for _, i in jobs]
    before, start = state(), threading.Barrier(threads)

    def work(thread: int) -> list[Any]:
        start.wait()
        return [call(nets[i], points(i)) for call, i in jobs[thread::threads]]

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(work, range(threads)))
    assert state() == before
    for thread in range(threads):
        assert found[thread] == serial[thread::threads]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == torch.get_num_threads()


def test_threads_find_what_one_thread_finds_and_leave_the_process_as_it_was():
    found = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        check(threads=4, calls=15)
    finally:
        torch.set_num_threads(found)


@pytest.mark.parametrize("call", CALLS[:4])
def test_one_model_in_several_threads_is_the_model_in_one(call):
    net, x = model(1), points(0)
    expected = call(net, x)
    net.train()
    before = state()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda _: call(net, x), range(3))) == [expected] * 3
    assert state() == before
    assert net.training
    assert all(part.training for part in net.modules())


def test_a_thread_that_runs_modules_is_not_seen_while_another_is_watched():
    """A hook of all modules is called by all threads: each knows its own."""
    stop, other = threading.Event(), nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))
    net, x = model(0), points(0)
    expected = ss.local_complexity(net, x, radius=0.3).sites
    errors: list[BaseException] = []

    def run() -> None:
        while not stop.is_set():
            try:
                other(x)
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for _ in range(5):
            assert ss.local_complexity(net, x, radius=0.3).sites == expected
    finally:
        stop.set()
        thread.join()
    assert not errors


def test_a_hook_does_nothing_in_another_thread_that_runs_the_same_model():
    layer, seen = nn.Linear(2, 2), []
    before, after = [[(layer, lambda *_, when=when: seen.append(when))] for when in ("before", "after")]
    with Hooked(before, after):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(layer, points(0)).result()
        assert not seen
        layer(points(0))
    assert seen == ["before", "after"]

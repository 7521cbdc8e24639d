"""Speed of the particle velocities: `python -m benchmarks.meanfield` rewrites docs/benchmarks/meanfield*.csv.

One evaluation of the batch-norm velocity of all neurons at m = 10^4, d = 50, N = 10^4, against

* an autograd loop over neurons: one backward pass per neuron, given the outputs of the network (timed on some
  neurons, the rest extrapolated, as all neurons cost the same);
* vectorized autograd: one backward pass through the whole network, torch's own batch norm;
* the two matrix products of a closed form and nothing else.

All take turns in each round, so that they meet the same neighbors on a busy machine; a ratio is the median over
rounds of the ratio within a round. Wall-clock seconds, once with one thread and once with all cores, for all alike. A
second table has the largest size, 10^5 neurons in 100 dimensions, each run in a fresh process for its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.tables import write_table
from benchmarks.timing import peak_memory
from splinescope.meanfield import Data, GaussianInputs, TwoLayerBN
from splinescope.meanfield.functions import as_loss
from splinescope.meanfield.manifold import Manifold
from splinescope.meanfield.velocity import euclidean_velocity, forces

LOSS = as_loss("squared")
HEAD = ("threads", "activation, precision", "closed form, s", "autograd loop, s", "closed form against it (all rounds)",
        "vectorized autograd, s", "closed form against it", "two products alone, s",
        "products against the loop")  # fmt: skip
LARGE_HEAD = ("activation", "neurons", "d", "points", "closed form, s", "memory added, MB",
              "one table of pre-activations, MB")  # fmt: skip


def problem(m: int, d: int, n: int, activation: str, dtype: torch.dtype = torch.float64) -> tuple[TwoLayerBN, Data]:
    generator = torch.Generator().manual_seed(0)
    data = GaussianInputs(torch.eye(d, dtype=dtype)).sample(n, lambda x: torch.sin(x[:, 0]), generator=generator)
    a = torch.randn(m, generator=generator, dtype=dtype)
    return TwoLayerBN(a, torch.randn(m, d, generator=generator, dtype=dtype), activation), data


def products(net: TwoLayerBN, data: Data, rows: int = 104) -> torch.Tensor:
    """The products of pre-activations and of forces, in blocks of the size that the closed form takes."""
    z, g = net.b.new_empty(rows, net.width), net.b.new_zeros(net.dimension, net.width)
    for x in data.x.split(rows):
        torch.mm(x, net.b.T, out=z[: len(x)])
        g.addmm_(x.T, z[: len(x)])
    return g


def closed_form(net: TwoLayerBN, data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    force = forces(net.a, Manifold(data.covariance).normalize(net.b), data, net.activation, LOSS)
    return euclidean_velocity(net.a, net.b, force, data.covariance)


def vectorized_autograd(net: TwoLayerBN, data: Data) -> tuple[torch.Tensor, ...]:
    a, b = net.a.clone().requires_grad_(), net.b.clone().requires_grad_()
    z = F.batch_norm(data.x @ b.T, None, None, training=True, eps=torch.finfo(b.dtype).tiny)
    risk = data.weights @ LOSS.value(net.activation.value(z) @ a / net.width, data.y)
    return torch.autograd.grad(-net.width * risk, [a, b])


def autograd_loop(net: TwoLayerBN, data: Data, f: torch.Tensor, neurons: int) -> list[tuple[torch.Tensor, ...]]:
    """The velocities of the first `neurons` neurons, one backward pass each; the outputs `f` are given."""
    out = []
    for k in range(neurons):
        a, b = net.a[k].clone().requires_grad_(), net.b[k].clone().requires_grad_()
        z = data.x @ b
        own = a * net.activation.value(z / (b @ data.covariance @ b).sqrt()) / net.width
        risk = data.weights @ LOSS.value(f - own.detach() + own, data.y)
        out.append(torch.autograd.grad(-net.width * risk, [a, b]))
    return out


def seconds(*works: Callable[[], object], rounds: int = 7) -> np.ndarray:
    """Wall-clock time of each (columns) in each round (rows), after one round to warm up."""
    times = np.empty((rounds + 1, len(works)))
    for row in times:
        for k, work in enumerate(works):
            start = time.perf_counter()
            work()
            row[k] = time.perf_counter() - start
    return times[1:]


def compare(m: int, d: int, n: int, activation: str, dtype: torch.dtype) -> tuple[object, ...]:
    """A row of the table."""
    net, data = problem(m, d, n, activation, dtype)
    some = min(m, 500)
    f = net(data.x, data.covariance)
    reference = autograd_loop(net, data, f, 3)
    ours = closed_form(net, data)
    worst = max((ours[1][k] - reference[k][1]).abs().max().item() for k in range(3))
    assert worst < 5000 * torch.finfo(dtype).eps, worst  # 1e-12 in float64
    times = seconds(
        lambda: closed_form(net, data),
        lambda: autograd_loop(net, data, f, some),
        lambda: vectorized_autograd(net, data),
        lambda: products(net, data),
    )
    times[:, 1] *= m / some
    closed, loop, whole, bare = np.median(times, axis=0)
    gains = times / times[:, :1]
    loop_gain, whole_gain = np.median(gains[:, 1]), np.median(gains[:, 2])
    return (
        torch.get_num_threads(),
        f"{activation}, {str(dtype).split('.')[-1]}",
        f"{closed:.2f}",
        f"{loop:.1f}",
        f"{loop_gain:.0f}x ({gains[:, 1].min():.0f} to {gains[:, 1].max():.0f})",
        f"{whole:.2f}",
        f"{whole_gain:.1f}x",
        f"{bare:.2f}",
        f"{np.median(times[:, 1] / times[:, 3]):.0f}x",
    )


def _peak(m: int, d: int, n: int, activation: str, send: object) -> None:
    net, data = problem(m, d, n, activation)
    before = peak_memory()
    start = time.perf_counter()
    closed_form(net, data)
    spent = time.perf_counter() - start
    send.send((spent, before, peak_memory()))


def memory(m: int, d: int, n: int, activation: str) -> tuple[object, ...]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(m, d, n, activation, send))
    process.start()
    spent, before, peak = receive.recv()
    process.join()
    full = m * n * 8 / 2**20
    return activation, f"{m:,}", d, f"{n:,}", f"{spent:.1f}", f"{peak - before:,.0f}", f"{full:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="shrink m and N by this factor for a trial run")
    scale = parser.parse_args().scale
    m = n = int(10_000 * scale)
    cases = [(activation, dtype) for dtype in (torch.float64, torch.float32) for activation in ("relu", "tanh")]
    rows = []
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for case in cases:
            rows.append(compare(m, 50, n, *case))
            print(*rows[-1], sep=" | ", flush=True)
    large = [memory(int(100_000 * scale), 100, n, activation) for activation in ("relu", "tanh")]
    if scale == 1.0:
        write_table("meanfield", HEAD, rows)
        write_table("meanfield_memory", LARGE_HEAD, large)


if __name__ == "__main__":
    main()

"""Speed of the particle velocities: `python -m benchmarks.meanfield` rewrites docs/benchmarks/meanfield.md.

One evaluation of the batch-norm velocity of all neurons at m = 10^4, d = 50, N = 10^4, against

* the two matrix products in it and nothing else: no closed form can do with less;
* an autograd loop over neurons: one backward pass per neuron, given the outputs of the network (timed on a
  few neurons, the rest extrapolated, as all neurons cost the same);
* vectorised autograd: one backward pass through the whole network, torch's own batch norm.

All in CPU seconds of one process with one thread, so that ratios mean something on a busy machine. A second
table has the largest size, 10^5 neurons in 100 dimensions, each run in a fresh process for its peak memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from splinescope.meanfield import Data, Gaussian, Manifold, TwoLayerBN
from splinescope.meanfield.functions import as_loss
from splinescope.meanfield.velocity import euclidean_velocity, forces

TABLE = Path(__file__).parents[1] / "docs" / "benchmarks" / "meanfield.md"
LOSS = as_loss("squared")


def problem(m: int, d: int, n: int, activation: str, dtype: torch.dtype = torch.float64) -> tuple[TwoLayerBN, Data]:
    generator = torch.Generator().manual_seed(0)
    data = Gaussian(torch.eye(d, dtype=dtype)).sample(n, lambda x: torch.sin(x[:, 0]), generator=generator)
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
    force = forces(net.a, Manifold(data.covariance).normalise(net.b), data, net.activation, LOSS)
    return euclidean_velocity(net.a, net.b, force, data.covariance)


def vectorised_autograd(net: TwoLayerBN, data: Data) -> tuple[torch.Tensor, ...]:
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


def cpu_seconds(*works: Callable[[], object], rounds: int = 5) -> list[float]:
    """The best time of each, after one round to warm up; taken in turn, so that all meet the same neighbours."""
    best = [float("inf")] * len(works)
    for i in range(rounds + 1):
        for k, work in enumerate(works):
            start = time.process_time()
            work()
            if i:
                best[k] = min(best[k], time.process_time() - start)
    return best


def compare(m: int, d: int, n: int, activation: str, dtype: torch.dtype) -> str:
    net, data = problem(m, d, n, activation, dtype)
    some = min(m, 50)
    f = net(data.x, data.covariance)
    reference = autograd_loop(net, data, f, 3)
    ours = closed_form(net, data)
    worst = max((ours[1][k] - reference[k][1]).abs().max().item() for k in range(3))
    assert worst < 5000 * torch.finfo(dtype).eps, worst  # 1e-12 in float64
    closed, bare, loop, whole = cpu_seconds(
        lambda: closed_form(net, data),
        lambda: products(net, data),
        lambda: autograd_loop(net, data, f, some),
        lambda: vectorised_autograd(net, data),
    )
    loop *= m / some
    return (
        f"| {activation}, {str(dtype).split('.')[-1]} | {closed:.2f} | {bare:.2f} | {loop:.1f} "
        f"| **{loop / closed:.0f}x** | {loop / bare:.0f}x | {whole:.2f} | {whole / closed:.1f}x |"
    )


def peak_memory() -> float:
    """Largest resident memory of this process so far, MB (Linux; unlike ru_maxrss it forgets the parent)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _peak(m: int, d: int, n: int, activation: str, send: object) -> None:
    torch.set_num_threads(1)
    net, data = problem(m, d, n, activation)
    before = peak_memory()
    start = time.process_time()
    closed_form(net, data)
    spent = time.process_time() - start
    send.send((spent, before, peak_memory()))


def memory(m: int, d: int, n: int, activation: str) -> str:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_peak, args=(m, d, n, activation, send))
    process.start()
    spent, before, peak = receive.recv()
    process.join()
    full = m * n * 8 / 2**20
    return f"| {activation} | {m:,} | {d} | {n:,} | {spent:.1f} | {peak - before:,.0f} | {full:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="shrink m and N by this factor for a trial run")
    scale = parser.parse_args().scale
    torch.set_num_threads(1)
    m = n = int(10_000 * scale)
    rows = [
        compare(m, 50, n, activation, dtype)
        for dtype in (torch.float64, torch.float32)
        for activation in ("relu", "tanh")
    ]
    large = [memory(int(100_000 * scale), 100, n, activation) for activation in ("relu", "tanh")]
    head = (
        "activation, precision | closed form, s | its two products alone, s | autograd loop, s "
        "| closed form against it | products against it | vectorised autograd, s | closed form against it"
    )
    text = f"""# Mean field: speed of the particle velocities

Written by `python -m benchmarks.meanfield`: one thread, CPU seconds for one velocity of {m:,} neurons in 50
dimensions on {n:,} points, the best of five rounds in which all take turns. "Loop" is one backward pass per neuron
with the network's outputs given; "vectorised" is one backward pass through the whole network with torch's batch
norm. The closed form is first compared with the loop, to 1e-12 in float64.

| {head} |
|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

The gain over the loop comes from matrix products in place of matrix-vector products, and they bound it: no closed
form can be faster than its two products alone, so a factor of 20 is out of reach where "products against it" is less.
Vectorised autograd makes the same two products; the closed form saves passes over stored intermediates, and their
memory: it holds one block, not several tables of neurons times points.

| activation | neurons | d | points | closed form, s | memory added, MB | one table of pre-activations, MB |
|---|---|---|---|---|---|---|
{chr(10).join(large)}
"""
    print(text)
    if scale == 1.0:
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

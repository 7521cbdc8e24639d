"""Speed of volume factors: `python -m benchmarks.generative` rewrites docs/benchmarks/generative.csv.

`log_volume` against the singular values of Jacobians made one latent at a time, on the shapes of two published
generators: an MLP 64 -> 784 and a convolutional decoder 10 -> 3x64x64. Float32, one thread, CPU seconds; every row
is a fresh process, so that its peak memory (above that of the loaded libraries) is its own. The reverse-mode Jacobian
of `torch.autograd.functional` is what people write first; forward mode (`jacfwd`) is the strongest of the alternatives,
and the gain over it, from batching and the Gram matrix, is small where the generator itself takes the time.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.tables import write_table
from splinescope.generative import log_volume
from splinescope_evidence.shared.generative import ConvDecoder

Jacobian = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]


def mlp() -> nn.Module:
    """The shape of a published MNIST generator."""
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh())


SUBJECTS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "MLP 64 -> 784": (mlp, 64),
    "conv decoder 10 -> 3x64x64": (lambda: ConvDecoder(channels=3, side=64), 10),
}


def one_by_one(jacobian: Jacobian) -> Callable[[nn.Module, Tensor], Tensor]:
    """Log volumes from a routine for one latent's Jacobian."""

    def run(generator: nn.Module, z: Tensor) -> Tensor:
        rows = [jacobian(lambda x: generator(x[None]).flatten(), row).detach() for row in z]
        return torch.stack([torch.linalg.svdvals(row).log().sum() for row in rows])

    return run


METHODS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "log_volume": lambda generator, z: log_volume(generator, z).log,
    "autograd Jacobian + SVD": one_by_one(torch.autograd.functional.jacobian),
    "autograd Jacobian, vectorized + SVD": one_by_one(
        lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True)
    ),
    "jacfwd + SVD": one_by_one(lambda f, x: torch.func.jacfwd(f)(x)),
}
LATENTS = {"log_volume": 256, "jacfwd + SVD": 32}
"""Latents timed; the slow methods take what fits in a few seconds."""


def measure(subject: str, method: str) -> dict[str, float]:
    """Milliseconds a latent and peak memory of one method, in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    build, latent = SUBJECTS[subject]
    generator = build().eval()
    count = LATENTS.get(method, 8 if latent == 64 else 1)
    z = torch.randn(256, latent)[:count]
    torch.func.jacfwd(generator)(z[:1])  # torch loads its forward-mode rules once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    logs = METHODS[method](generator, z)
    seconds = time.process_time() - start
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"ms": 1e3 * seconds / count, "MB": peak, "first": float(logs[0]), "latents": count}


def table(subject: str) -> list[tuple[object, ...]]:
    """Rows of one subject, each from a process of its own; methods that disagree are an error."""
    found: dict[str, dict[str, float]] = {}
    for method in METHODS:
        command = [sys.executable, "-m", "benchmarks.generative", "--one", subject, method]
        found[method] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(subject, method, found[method], file=sys.stderr)
    ours = found["log_volume"]
    rows: list[tuple[object, ...]] = []
    for method, row in found.items():
        if abs(row["first"] - ours["first"]) > 1e-3 * abs(ours["first"]):
            raise RuntimeError(f"{method} found a log volume of {row['first']}, log_volume {ours['first']}")
        ratio = row["ms"] / ours["ms"]
        rows.append((subject, method, row["latents"], f"{row['ms']:.3g}", f"{ratio:.3g}", f"{row['MB']:.0f}"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("SUBJECT", "METHOD"), help="measure one row and print it as JSON")
    one = parser.parse_args().one
    if one:
        print(json.dumps(measure(*one)))
        return
    head = ("generator", "method", "latents", "ms a latent", "times log_volume", "peak memory, MB")
    write_table("generative", head, [row for subject in SUBJECTS for row in table(subject)])


if __name__ == "__main__":
    main()

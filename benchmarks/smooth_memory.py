"""Peak memory of the tools for smooth networks, each in a fresh process; `benchmarks.smooth` writes it down.

    python -m benchmarks.smooth_memory NAME     # one row: MB above `import torch, splinescope`

The first number is of the same tool on a small case: mostly libraries that are loaded on first use (torch's exporter,
numba, scipy). The second is the peak at the size named, the model and its weights included.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import torch
from torch import nn

import splinescope as ss
import splinescope_research
from benchmarks.timing import peak_memory

WIDTH, LAYERS, ROWS, TOKENS = 768, 2, 4, 256  # of the transformers: GPT-2's width


def gelu_net(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 2))


def tiling(small: bool) -> None:
    plane = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)
    ss.tessellate(gelu_net(4 if small else 16), plane, tolerance=1e-1 if small else 1e-3, threads=1)


def gpt(small: bool) -> tuple[nn.Module, torch.Tensor]:
    """A GPT-2-shaped model and token ids."""
    from tests.smooth.models import GPT2Block, LanguageModel

    torch.manual_seed(0)
    size = 24 if small else WIDTH
    model = LanguageModel(GPT2Block, size=size, heads=size // (12 if small else 64), layers=LAYERS, vocabulary=1000)
    return model.eval(), torch.randint(0, 1000, (2, 8) if small else (ROWS, TOKENS))


def forward(small: bool) -> None:
    model, ids = gpt(small)
    with torch.no_grad():
        model(ids)


def tokens(small: bool) -> None:
    model, ids = gpt(small)
    ss.token_geometry(model, ids)


def long_text(small: bool) -> None:
    model, ids = gpt(small)
    ss.token_geometry(model, ids[:1].repeat(1, 1 if small else 32), window=TOKENS)


def point_map(small: bool) -> None:
    model, ids = gpt(small)
    with torch.no_grad():
        embeddings = model.get_submodule("wte")(ids[:1, :16])
    at = ss.local_map(model, embeddings, forward=lambda m, e: m(inputs_embeds=e))
    at.singular_values(3)
    at.part(output=(0, 7), input=(0, 3)).matrix()
    at.validity([0.1, 1.0], directions=1)


def part(small: bool) -> None:
    model, ids = gpt(small)
    layer = ss.smooth.block(model, "h.1", ids[:, :16])
    ss.local_map(layer, layer.inputs[:1]).singular_values(3)
    ss.representation_geometry(layer, layer.inputs)
    width = 24 if small else WIDTH
    mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
    mlp = ss.smooth.block(nn.Sequential(mlp), "0", torch.randn(2, 8, width))
    line = ss.Slice.segment(*mlp.inputs[[0, 9]])  # a plane has millions of tiles
    ss.tessellate(mlp, line, tolerance=1.0, threads=1)


def steering(small: bool) -> None:
    from tests import real

    x, y = real.cifar_images()
    count = 4 if small else 100
    effort = {"steps": 7, "restarts": 1, "queries": 10, "places": 2 if small else 16}
    splinescope_research.steer(real.resnet20(), x[:count], y[:count], epsilon=0.03, betas=(0.9, 1.0), **effort)


def entropy(small: bool) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    splinescope_research.entropy_map(net, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2), cells=8 if small else 160)


CASES: dict[str, tuple[str, Callable[[bool], None]]] = {
    "tiling": ("tessellate(tolerance=1e-3), MLP 2-16-16-2, plane of 105,034 tiles", tiling),
    "forward": ("the bare forward pass, GPT-2-shaped, width 768, 2 layers, 1024 tokens", forward),
    "tokens": ("token_geometry of that", tokens),
    "long_text": ("token_geometry, 8192 tokens in windows of 256", long_text),
    "point_map": ("local_map of that model at 16 tokens, 3 singular values, one block, validity", point_map),
    "part": ("block: its layer at 16 tokens, mapped; an MLP 768-3072-768 tiled on a line within 1", part),
    "steering": ("steer, ResNet-20, 100 images, two betas", steering),
    "entropy": ("entropy_map, MLP 2-24-24-2, 160 x 160 points", entropy),
}


def measure(name: str) -> tuple[float, float]:
    """MB above what this process had when it had imported torch and splinescope: small case, then the one named."""
    torch.set_num_threads(1)
    before = peak_memory()
    work = CASES[name][1]
    work(True)
    small = peak_memory() - before
    work(False)
    return small, peak_memory() - before


def table() -> list[tuple[str, ...]]:
    """One row per tool, each from a process of its own."""
    rows: list[tuple[str, ...]] = []
    for name, (what, _) in CASES.items():
        command = [sys.executable, "-m", "benchmarks.smooth_memory", name]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        rows.append((what, f"{float(out[0]):.0f}", f"{float(out[1]):.0f}"))
    return rows


if __name__ == "__main__":
    print(*measure(sys.argv[1]))

"""A small character-level GPT, trained on text that ships with Python."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LETTERS = 128
_CODE = ("argparse", "ast", "decimal", "difflib", "doctest", "inspect", "logging", "mailbox", "pickle", "tarfile")


class CharBlock(nn.Module):
    """Pre-norm attention and an MLP."""

    def __init__(self, size: int, heads: int, activation: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.mix, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), activation, nn.Linear(4 * size, size))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.mix(self.norm_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm_2(x))


class CharGPT(nn.Module):
    """Ids of characters `[B, T]`, or embeddings by name, to logits `[B, T, 128]`."""

    def __init__(self, size: int, heads: int, layers: int, context: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, size), nn.Parameter(0.02 * torch.randn(context, size))
        self.layers = nn.ModuleList([CharBlock(size, heads, activation()) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, LETTERS)

    def forward(self, ids: Tensor | None = None, *, embeddings: Tensor | None = None) -> Tensor:
        x = self.letters(ids) if embeddings is None else embeddings
        x = x + self.places[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def prose() -> Tensor:
    """Ids of the language reference that `help()` shows."""
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    return encode("\n".join(topics[name] for name in sorted(topics)))


def code() -> Tensor:
    """Ids of the source of some modules of the standard library."""
    return encode("\n".join(inspect.getsource(importlib.import_module(name)) for name in _CODE))


def encode(text: str) -> Tensor:
    return torch.tensor(list(text.encode("ascii", "ignore")), dtype=torch.long)


def pieces(ids: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """`[count, length]` random pieces."""
    starts = torch.randint(0, len(ids) - length - 1, (count,), generator=generator)
    return torch.stack([ids[start : start + length] for start in starts])


def train(
    model: CharGPT, text: Tensor, steps: int, context: int, generator: torch.Generator,
    at: set[int], look: Callable[[int], None],
) -> float:  # fmt: skip
    """Adam on next characters; `look(step)` at the chosen steps, before the update. Returns the last losses' mean."""
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3, weight_decay=0.01)
    losses = []
    for step in range(steps + 1):
        if step in at:
            model.eval()
            look(step)
            model.train()
        batch = pieces(text, 24, context + 1, generator)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    model.eval()
    return float(np.mean(losses[-20:]))

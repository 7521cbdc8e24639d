"""Networks that the routines of `complexity` meet, beyond plain MLPs: convolutions, branches, transformers."""

import copy
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(*sizes: int, activation: type[nn.Module] = nn.ReLU, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.MaxPool2d(2, padding=1, ceil_mode=True),
        nn.Flatten(), nn.Linear(3 * 16, 8), nn.LeakyReLU(0.1), nn.Linear(8, 2),
    )  # fmt: skip
    net[1].running_mean.normal_()
    return net.eval()


class Residual(nn.Module):
    """Two blocks with skips; activations as functions and methods."""

    def __init__(self, size: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.head = nn.Linear(size, size), nn.Linear(size, size), nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.relu(self.one(x))
        x = x + self.two(x).clamp(-0.5, 0.5)
        return self.head(x)


class TinyTransformer(nn.Module):
    """Embeddings in, logits out: pre-norm attention and a SwiGLU block, written as model hubs write them."""

    def __init__(self, size: int = 8, heads: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.gate, self.up, self.down = nn.Linear(size, 16), nn.Linear(size, 16), nn.Linear(16, size)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(size, 5)

    def forward(self, inputs_embeds: Tensor) -> Tensor:
        x = inputs_embeds
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d))
        h = self.norm2(x)
        x = x + self.drop(self.down(F.silu(self.gate(h)) * self.up(h)))
        return self.head(x)


CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "mlp": (mlp(3, 12, 12, 2), (3,)),
    "one layer": (mlp(4, 20, 1), (4,)),
    "gelu": (mlp(3, 12, 12, 2, activation=nn.GELU), (3,)),
    "convolutional": (convolutional(), (1, 9, 9)),
    "residual": (Residual(), (6,)),
    "transformer": (TinyTransformer(), (4, 8)),
    "encoder layer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (4, 8)),
    "dead unit": (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)), (2,)),
}
with torch.no_grad():
    CASES["dead unit"][0][0].weight[0] = 0.0
    CASES["dead unit"][0][0].bias[0] = -1.0


def case(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A copy of the model, to be changed at will, and the shape of its rows."""
    model, shape = CASES[name]
    return copy.deepcopy(model).eval(), shape


def normed() -> nn.Sequential:
    """A network whose running averages are those of a fresh batch norm, far from the data's."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(3, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU()
    )

"""The affine map at a point: what has none is refused in words, and what only looks like it is told from it."""

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope import InputError, UnsupportedModelError

from .models import ConvNextBlock, GPT2Block, LanguageModel
from .networks import Called


def assigned(x):
    x = x.clone()
    x[:, 0] = x[:, 1].log()
    return x


class WrittenGate(nn.Module):
    """A gated MLP whose activation is written out, as in T5: an elementwise function of one value is a gate."""

    def __init__(self, activation) -> None:
        super().__init__()
        self.activation, self.gate, self.up = activation, nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.gate(x)) * self.up(x)


@pytest.mark.parametrize(("model", "x", "error", "message"), [
    (LanguageModel(GPT2Block), torch.zeros(1, 3, dtype=torch.long), InputError, "got torch.int64"),
    (nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train(), torch.zeros(1, 2), UnsupportedModelError, "model.eval"),
    (Called(lambda x: x + (x * x).sum(-1, keepdim=True)), torch.ones(1, 2), UnsupportedModelError,
     "multiplies values that both depend on the input"),
    (WrittenGate(lambda z: 0.5 * z + 1), torch.ones(1, 3), UnsupportedModelError,
     "multiplies values that both depend"),  # neither was bent
    (Called(lambda x: x + torch.randn(3)), torch.ones(1, 3), UnsupportedModelError,
     r"misses f.x. by .* It may be random"),
    (Called(assigned), torch.ones(1, 2), UnsupportedModelError, r"affine:\n  - model \(log\): log is not affine\nAct"),
    (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, track_running_stats=False)), torch.randn(3, 2),
     UnsupportedModelError, "batch"),
    (nn.Softmax(-1), torch.ones(1, 2), UnsupportedModelError, "softmax is not affine[^$]*the scores before it"),
    (nn.Linear(2, 2), torch.full((1, 2), torch.nan), InputError, "finite"),
    (ConvNextBlock(2), "nothing", InputError, "tensor or array"),
    (nn.Linear(2, 2), torch.ones(1, 3), InputError, r"must run on x, here .* rows of shape \(3,\).*forward="),
    (LanguageModel(GPT2Block), torch.ones(1, 3, 12), InputError, r"run on x, .* rows of shape \(3, 12\).*forward="),
])  # fmt: skip
def test_what_has_no_map_is_refused_in_words(model, x, error, message):
    if isinstance(model, LanguageModel):
        model.eval()
    with pytest.raises(error, match=message):
        ss.local_map(model, x)


def test_a_factor_may_be_marked_by_detach():
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    marked = Called(lambda x: x.sum(-1, keepdim=True).detach() * x)
    assert np.allclose(ss.local_map(marked, x).matrix(), 3 * np.eye(2))


class RootMeanSquare(nn.Module):
    """As the norms of `transformers`: in float32 (or the dtype given), whatever the model's dtype."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight, self.dtype = nn.Parameter(torch.rand(6) + 0.5), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.to(self.dtype)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@pytest.mark.parametrize(("dtype", "coarser"), [(torch.float64, torch.float32), (torch.float32, torch.float16)])
def test_a_cast_to_a_coarser_dtype_is_refused(dtype, coarser):
    with pytest.raises(UnsupportedModelError, match=rf"casts to {coarser}, which is coarser"):
        ss.local_map(RootMeanSquare(coarser).to(dtype), torch.ones(1, 6, dtype=dtype))
    fine = RootMeanSquare(dtype).to(dtype)
    assert ss.local_map(fine, torch.ones(1, 6, dtype=dtype)).gap < 1e-5


@pytest.mark.parametrize("activation", [
    lambda z: 0.5 * z * (1.0 + torch.tanh(0.797884 * (z + 0.044715 * torch.pow(z, 3.0)))),
    lambda z: z * torch.sigmoid(1.702 * z),
    lambda z: z / (1 + torch.exp(-z)),
])  # fmt: skip
def test_a_written_out_activation_gates_as_a_called_one_does(activation):
    torch.manual_seed(0)
    model, x = WrittenGate(activation).double(), torch.randn(1, 3, dtype=torch.float64)
    at = ss.local_map(model, x)
    with torch.no_grad():
        held = activation(model.gate(x))[0]
        assert np.allclose(at.matrix(), (held[:, None] * model.up.weight).numpy(), rtol=1e-12)
    assert at.gap <= 1e-12

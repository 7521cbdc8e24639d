"""A part by itself: it does what it did inside, on what entered it, and every tool takes it."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope import InputError, UnsupportedModelError

from .models import GPT2Block, LanguageModel


class Mlp(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.norm, self.attend = nn.LayerNorm(size), nn.MultiheadAttention(size, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(size, 10), nn.ReLU(), nn.Linear(10, size))

    def forward(self, x, mask=None):
        h = self.norm(x)
        x = x + self.attend(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    return LanguageModel(Mlp, size=6, heads=2).double().eval()


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(0, 20, (2, 7), generator=torch.Generator().manual_seed(0))


def test_a_part_does_what_it_did_inside(model, ids):
    seen = {}
    handle = model.h[1].mlp.register_forward_hook(lambda m, a, y: seen.update(x=a[0], y=y))
    with torch.no_grad():
        model(ids)
    handle.remove()
    part = ss.smooth.block(model, "h.1.mlp", ids)
    assert part.by_token
    assert torch.equal(part.inputs, seen["x"].flatten(0, 1))
    assert torch.allclose(part(part.inputs), seen["y"].flatten(0, 1))
    mask = torch.ones(2, 7)
    mask[0, 3:] = 0
    assert torch.equal(ss.smooth.block(model, "h.1.mlp", ids, mask=mask).inputs, seen["x"][mask.bool()])


def test_a_part_that_mixes_tokens_is_one_of_sequences(model, ids):
    part = ss.smooth.block(model, "h.1", ids)
    assert not part.by_token
    assert part.inputs.shape == (2, 7, 6)
    with torch.no_grad():
        after = model.head(model.ln_f(part(part.inputs)))
        assert torch.allclose(after, model(ids))


class Mean(nn.Module):
    """Mixes tokens by their mean, at any length."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 5)

    def forward(self, x):
        return torch.relu(self.l(x + x.mean(1, keepdim=True)))


class Mixer(nn.Module):
    """Mixes tokens by a layer over them, so at one length only."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.l(x.transpose(1, 2))).transpose(1, 2)


class Fixed(nn.Module):
    """Treats each token by itself, but insists on a number of them."""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 5)

    def forward(self, x):
        if x.shape[1] != 3:
            raise KeyError("three tokens, please")
        return torch.relu(self.l(x))


class Placed(nn.Module):
    """Adds what depends on the place, at one length only."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        return torch.relu(x + self.places)


@pytest.mark.parametrize("kind", [Fixed, Placed])
def test_a_part_that_is_another_on_single_tokens_is_one_of_sequences(kind):
    model = nn.Sequential(nn.Embedding(9, 4), kind()).eval()
    part = ss.smooth.block(model, "1", torch.tensor([[0, 1, 2], [3, 4, 5]]))
    assert not part.by_token
    assert part.inputs.shape == (2, 3, 4)
    assert part(part.inputs).shape[:2] == (2, 3)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.Conv1d(3, 3, 1, groups=3), nn.GroupNorm(3, 3)], ids=repr)
def test_channels_are_not_taken_for_tokens(layer):
    x = torch.randn(4, 3, 5)
    part = ss.smooth.block(nn.Sequential(nn.Identity(), layer).eval(), "1", x)
    assert not part.by_token
    assert torch.equal(part(part.inputs), layer(x))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_method_is_a_part_too(activation):
    """The MLP of torch's own encoder layer is no module of it, and its fast path calls none."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, norm_first=True, activation=activation)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 4, 6)
    part = ss.smooth.block(model, "layers.1._ff_block", x)
    assert part.by_token
    own = model.layers[1]
    assert "_ff_block" not in vars(own)
    assert not own._forward_pre_hooks
    with torch.no_grad():
        middle = model.layers[0](x)
        middle = middle + own._sa_block(own.norm1(middle), None, None)
        assert torch.allclose(part.inputs.reshape(2, 4, 6), own.norm2(middle), atol=1e-6)
        assert torch.allclose(middle + part(part.inputs).reshape(2, 4, 6), model(x), atol=1e-6)
    tiling = ss.tessellate(part, ss.Slice.segment(*part.inputs[:2]), tolerance=1e-2)
    assert tiling.count > 3
    assert tiling.sites[0].shape == (8,)
    with pytest.raises(InputError, match=r"layers\.1\.norm2"):
        ss.smooth.block(model, "layers.1.parameters", x)


def test_what_entered_goes_with_the_part(model, ids):
    for path in ("h.1.mlp", "h.1"):
        part = ss.smooth.block(model, path, ids).float()
        assert part.inputs.dtype == torch.float32
        assert part(part.inputs).dtype == torch.float32


@pytest.mark.parametrize("kind", [Mean, Mixer])
def test_a_part_that_mixes_tokens_is_tiled_and_copied_as_it_is(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, 4), kind()).double().eval()
    part = ss.smooth.block(model, "1", torch.tensor([[0, 1, 2], [3, 4, 5], [6, 7, 8]]))
    assert not part.by_token
    assert part.inputs.shape == (3, 3, 4)
    with torch.no_grad():
        assert torch.equal(copy.deepcopy(part)(part.inputs), model[1](part.inputs))
    view = ss.Slice.through(*part.inputs)
    alone, inside = ss.tessellate(part, view, threads=1), ss.tessellate(model[1], view, threads=1)
    assert alone.count == inside.count > 3
    assert np.array_equal(alone.vertices, inside.vertices)


def test_every_tool_takes_a_part(model, ids):
    part = ss.smooth.block(model, "h.0.mlp", ids)
    view = ss.Slice.through(*part.inputs[[0, 3, 5]].numpy(), pad=0.2)  # at three real tokens
    tiling = ss.tessellate(part, view, threads=1)
    assert tiling.check().ok
    assert tiling.count > 3
    counts = ss.local_complexity(part, part.inputs, radius=0.3, directions=3).counts
    assert counts.shape == (14, 1)
    distances = ss.normalization.fold_distances(part, part.inputs)[0]
    z = part.part[0](part.inputs) / part.part[0].weight.norm(dim=1)
    assert np.allclose(distances.nearest, z.abs().amin(0).detach().numpy())
    assert np.allclose(ss.token_geometry(part, part.inputs).nearest[0, :, 0], z.abs().amin(1).detach().numpy())
    assert len(ss.representation_geometry(part, part.inputs)) >= 2
    assert ss.local_map(part, part.inputs[:1]).gap < 1e-12


def test_what_is_no_part_is_named(model, ids):
    with pytest.raises(InputError, match=r"h\.0\.mlp"):
        ss.smooth.block(model, "h.0.mpl", ids)
    with pytest.raises(InputError, match=r"shape \(2, 7\)"):
        ss.smooth.block(model, "h.0.mlp", ids, mask=torch.ones(3, 3))
    with pytest.raises(InputError, match="at least one token, got none"):
        ss.smooth.block(model, "h.0.mlp", ids, mask=torch.zeros(2, 7))
    shared = nn.Sequential(act := nn.ReLU(), nn.Linear(3, 3), act)
    with pytest.raises(UnsupportedModelError, match="got 2 calls"):
        ss.smooth.block(shared, "0", torch.randn(2, 3))
    with pytest.raises(UnsupportedModelError, match="eval"):
        ss.smooth.block(LanguageModel(GPT2Block), "h.0.mlp.c_fc", ids)

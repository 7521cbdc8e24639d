"""Initialization by data: equal to batch norm, a fixed point, reversible; on the table of networks."""

import copy
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import fold_distances, initialize_

from .. import cases
from .test_fold_distances import data

PLAIN = [name for name in cases.CASES if name not in ("batch norm", "no hidden layer")]


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(0)
    return cases.mlp(*widths).double()


def moons(n: int = 60) -> torch.Tensor:
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 + 5


def test_standard_equals_batch_norm_with_the_whole_batch():
    plain, x = mlp(2, 9, 7, 3), moons()
    parts = list(plain)
    norms = [nn.BatchNorm1d(n, eps=1e-30, dtype=torch.float64) for n in (9, 7)]
    expected = copy.deepcopy(nn.Sequential(*parts[:1], norms[0], *parts[1:3], norms[1], *parts[3:])).train()(x)
    initialize_(plain, x)
    torch.testing.assert_close(plain(x), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PLAIN)
def test_every_fold_passes_through_the_mean(name):
    """Directly fed folds are at their optimum; those fed by a sum have a layer of their own that is."""
    model, x = cases.model(name), data(name)
    before = copy.deepcopy(model.state_dict())
    done = initialize_(model, x)
    once = copy.deepcopy(model.state_dict())
    for path in done.layers:
        seen: list[torch.Tensor] = []
        handle = model.get_submodule(path).register_forward_hook(lambda _m, _i, out, seen=seen: seen.append(out))
        model(x)
        handle.remove()
        z = seen[0].movedim(1, 0).flatten(1)
        moving = [i for i in range(len(z)) if i not in done.constant.get(path, ())]
        assert z.mean(1).abs().max() < 1e-11
        torch.testing.assert_close(z[moving].std(1, correction=0), torch.ones(len(moving)).double(), rtol=1e-9, atol=0)
    initialize_(model, x)
    for key, value in model.state_dict().items():
        torch.testing.assert_close(value, once[key], rtol=1e-8, atol=1e-8)  # ill-scaled entries lose some digits
    model.load_state_dict(once)
    done.undo()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_mean_alone_keeps_the_directions_and_reaches_the_least_squares_optimum():
    model, x = mlp(2, 9, 7, 3), moons()
    weights = [layer.weight.clone() for layer in model[::2]]
    initialize_(model, x, method="mean")
    assert all(torch.equal(a, layer.weight) for a, layer in zip(weights, model[::2], strict=True))
    for site in fold_distances(model, x):
        assert (site.objective <= site.optimum * (1 + 1e-12)).all()


def test_whitened_outputs_are_uncorrelated_where_they_can_be():
    model, x = mlp(6, 5, 4, 3), torch.randn(80, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    initialize_(model, x @ torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) + 3)
    initialize_(model, x, method="whiten")
    torch.testing.assert_close(torch.cov(model[0](x).T, correction=0), torch.eye(5).double(), rtol=0, atol=1e-9)
    wide = mlp(2, 9, 3)
    initialize_(wide, moons(), method="whiten")
    z = wide[0](moons())
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(9).double(), rtol=1e-9, atol=0)
    assert torch.linalg.matrix_rank(torch.cov(z.T), rtol=1e-8) == 2
    spectrum = torch.linalg.svdvals(model[0](x) - model[0](x).mean(0))
    assert spectrum.max() / spectrum.min() < 1 + 1e-8


def test_whitening_reaches_convolutions():
    torch.manual_seed(0)
    for layer in (nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(2, 3, 3)):
        model = nn.Sequential(layer, nn.ReLU()).double()
        x = torch.randn(10, 2, 5, 5, dtype=torch.float64)
        initialize_(model, x, method="whiten")
        z = layer(x).movedim(1, 0).flatten(1)
        torch.testing.assert_close(torch.cov(z, correction=0), torch.eye(3).double(), rtol=0, atol=1e-9)


def test_quantiles_between_two_points_are_interpolated():
    """Few points, so that hardly any quantile is one of them: the offsets are numpy's quantiles, each used once."""
    model, x = mlp(2, 6, 3), moons(8)
    before = model[0](x).detach()
    initialize_(model, x, method="quantile", generator=torch.Generator().manual_seed(0))
    after = model[0](x).detach()
    offsets = (before - after * before.std(0, correction=0)).numpy()
    wanted = np.quantile(before.numpy(), np.linspace(0.1, 0.9, 6), axis=0)  # [quantile, unit]
    assert np.ptp(offsets, axis=0).max() < 1e-12
    used = [int(np.abs(wanted[:, unit] - offsets[0, unit]).argmin()) for unit in range(6)]
    assert sorted(used) == list(range(6))
    np.testing.assert_allclose(offsets[0], wanted[used, range(6)], rtol=0, atol=1e-12)


def test_units_that_never_vary_are_centered_and_named():
    model, x = cases.model("dead units"), data("dead units")
    done = initialize_(model, x)
    assert done.constant == {"0": (3,), "2": (2,)}
    assert repr(done) == "Initialization('standard', 2 layers, exact)"
    assert [line.split() for line in done.summary().splitlines()[2:4]] == [["0", "1", "-"], ["2", "1", "-"]]
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_loader_gives_the_same_as_one_batch():
    first, second, x = mlp(2, 9, 7, 3), mlp(2, 9, 7, 3), moons()
    initialize_(first, x)
    initialize_(second, [(x[:13], None), (x[13:], None)])
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


def test_folds_of_sums_are_named():
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.relu = nn.Linear(2, 2), nn.ReLU()

        def forward(self, x):
            return self.relu(x + self.inner(x))

    done = initialize_(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Block()).double(), moons())
    assert done.layers == ("0", "2.inner")
    assert done.sums == ("2.relu",)


class Stack(nn.Module):
    """A stem and pre-activation residual blocks, `x + W relu(V relu(x))`, with a fold at the end."""

    def __init__(self, blocks: int, width: int = 8) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(2, width)
        self.first = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.second = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))

    def forward(self, x):
        x = self.stem(x)
        for first, second in zip(self.first, self.second, strict=True):
            x = x + second(torch.relu(first(torch.relu(x))))
        return torch.relu(x)


def test_branches_of_residual_blocks_get_the_deviation_that_is_asked_for():
    """Branches of deviation 1/4 on a stem of deviation 1: every term is centered, and so is the sum's fold."""
    stack, x = Stack(16).double(), moons()
    streams: list[torch.Tensor] = []
    done = initialize_(stack, x, branch=16**-0.5)
    assert done.branches == tuple(f"second.{i}" for i in range(16))

    def run() -> None:
        layers = (stack.stem, *stack.second)
        handles = [layer.register_forward_hook(lambda _m, _i, out: streams.append(out)) for layer in layers]
        stack(x)
        for handle in handles:
            handle.remove()

    run()
    for i, z in enumerate(streams):
        torch.testing.assert_close(z.std(0, correction=0), torch.full((8,), 1.0 if i == 0 else 0.25).double())
    total = torch.stack(streams).sum(0)
    assert total.mean(0).abs().max() < 1e-11  # the fold of the sum passes through the mean too
    done.undo()
    streams.clear()
    assert initialize_(stack, x).branches == done.branches
    run()
    assert all(z.std(0, correction=0).sub(1).abs().max() < 1e-9 for z in streams[-17:])


def test_behind_a_layer_norm_its_own_weights_place_the_folds_as_batch_norm_after_it_would():
    torch.manual_seed(1)
    x = moons()
    plain = nn.Sequential(nn.Linear(2, 9), nn.LayerNorm(9), nn.ReLU(), nn.Linear(9, 7), nn.LayerNorm(7), nn.ReLU(),
                          nn.Linear(7, 3)).double()  # fmt: skip
    normed = copy.deepcopy(plain)
    parts = list(normed)
    norms = [nn.BatchNorm1d(n, eps=1e-30, dtype=torch.float64) for n in (9, 7)]
    expected = nn.Sequential(*parts[:2], norms[0], *parts[2:5], norms[1], *parts[5:]).train()(x)
    linear = plain[0].weight.clone()
    done = initialize_(plain, x)
    assert done.layers == ("1", "4")
    assert torch.equal(plain[0].weight, linear)
    torch.testing.assert_close(plain(x), expected, rtol=1e-9, atol=1e-9)


def test_norms_before_a_linear_map_and_over_channels_are_passed():
    """Pre-norm: the linear map has the last word. Group norm: per channel; a layer norm over images: per pixel."""
    torch.manual_seed(2)
    x = torch.randn(20, 2, 4, 4, dtype=torch.float64) + 1
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 3, 1), nn.LayerNorm((3, 2, 2)), nn.ReLU(),
        nn.Flatten(), nn.LayerNorm(12), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2),
    ).double()  # fmt: skip
    assert initialize_(model, x).layers == ("1", "4", "8")
    z = model[:2](x).movedim(1, 0).flatten(1)
    assert z.mean(1).abs().max() < 1e-11
    pixels = model[:5](x).flatten(1)
    assert pixels.mean(0).abs().max() < 1e-11
    torch.testing.assert_close(model[:9](x).std(0, correction=0), torch.ones(5).double())


def test_unit_variance_is_one_number_a_layer_and_no_offset():
    model, x = mlp(2, 9, 7, 3), moons()
    directions = nn.functional.normalize(model[0].weight.clone())
    initialize_(model, x, method="unit_variance")
    for end in (1, 3):
        assert float(model[:end](x).detach().std(correction=0)) == pytest.approx(1, rel=1e-9)
        assert not model[end - 1].bias.any()
    torch.testing.assert_close(nn.functional.normalize(model[0].weight), directions)


class Functional(nn.Module):
    """A linear map without a module of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


SHARED = nn.Linear(2, 2)
FUNCTION = nn.Sequential(OrderedDict(inner=Functional(), relu=nn.ReLU(), last=nn.Linear(3, 3), a=nn.ReLU()))
REFUSED = [
    ("merge_batchnorm", cases.model("batch norm"), {}),
    ("no bias", nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU()), {}),
    ("computes its weight", nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(2, 3)), nn.ReLU()), {}),
    ("linear in inner is a function", FUNCTION, {}),
    ("found none", cases.model("no hidden layer"), {}),
    ("1 is a norm", nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.ReLU()), {"method": "whiten"}),
    ("1 has no bias", nn.Sequential(nn.Linear(2, 3), nn.RMSNorm(3), nn.ReLU()), {}),
    ("branch must be", mlp(2, 9, 3), {"branch": 0}),
    ("branch must be 1 for method 'mean'", mlp(2, 9, 3), {"method": "mean", "branch": 0.5}),
    ("branch must be 1 for this model", mlp(2, 9, 3), {"branch": 0.5}),
    ("more than once", nn.Sequential(SHARED, nn.ReLU(), SHARED, nn.ReLU()), {}),
]


@pytest.mark.parametrize(("message", "model", "options"), REFUSED, ids=[case[0] for case in REFUSED])
def test_models_that_cannot_be_set_are_told(message, model, options):
    with pytest.raises(ss.InputError, match=message):
        initialize_(model.double(), moons(), **options)


def test_a_refusal_on_the_way_changes_nothing():
    model = mlp(2, 9, 7, 3)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ss.InputError, match="at least 2 rows"):
        initialize_(model, moons(1))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())

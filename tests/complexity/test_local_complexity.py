"""Each method against a plain re-implementation, ray casting, or the tiling itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope.complexity import calibrated_radius, frame_reach, local_complexity, random_frame

from .. import cases
from .models import CASES, Residual, TinyTransformer, mlp

WATCHED = (nn.ReLU, nn.GELU, nn.LeakyReLU, nn.MaxPool2d)


def plain_frame(model: nn.Module, x: torch.Tensor, frame: torch.Tensor, radius: float) -> torch.Tensor:
    """One point at a time, every activation module's input stored by a hook, signs compared afterwards."""
    seen: list[torch.Tensor] = []

    def keep(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if isinstance(module, nn.MaxPool2d):
            seen.append(F.max_pool2d_with_indices(inputs[0], 2, padding=1, ceil_mode=True)[1])
        else:
            seen.append(inputs[0].detach().clone() > 0)

    handles = [m.register_forward_pre_hook(keep) for m in model.modules() if isinstance(m, WATCHED)]
    counts = []
    for point in x:
        seen.clear()
        vertices = torch.stack([point + s * radius * v for v in frame for s in (1, -1)])
        model(vertices)
        counts.append([int((s != s[:1]).any(0).sum()) for s in seen])
    for handle in handles:
        handle.remove()
    return torch.tensor(counts)


@pytest.mark.parametrize("name", ["mlp", "one layer", "gelu", "convolutional", "dead unit"])
@pytest.mark.parametrize("max_bytes", [None, 700])
def test_frame_equals_a_plain_implementation(name: str, max_bytes: int | None) -> None:
    model, shape = CASES[name]
    model.double()
    x = torch.randn(7, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    frame = random_frame(min(5, math.prod(shape)), shape, generator=torch.Generator().manual_seed(2))
    found = local_complexity(model, x, radius=0.3, directions=frame, max_bytes=max_bytes)
    assert torch.equal(found.counts, plain_frame(model, x, frame, 0.3))
    assert found.counts.sum() > 0


@pytest.mark.parametrize("name", [n for n in cases.CASES if n not in ("max-pool", "no hidden layer")])
def test_frame_equals_the_patterns_of_the_traced_network_on_the_table(name: str) -> None:
    """Another way to the signs at the vertices: the steps that `trace` reads, in float64, on stored hulls.

    A max-pool has one unit per window here and one per pair there; without a hidden layer there is nothing to count.
    """
    model, view = cases.model(name), cases.view(name)
    x = torch.from_numpy(view.inputs(np.vstack([view.domain, view.domain.mean(0)])))  # corners may lie on folds
    frame = random_frame(2, tuple(x.shape[1:]))
    found = local_complexity(model, x, radius=0.7, directions=frame)
    vertices = x[:, None] + 0.7 * torch.cat([frame, -frame])
    network = cases.tiling(name).require_network("patterns")
    patterns = network.program().patterns(vertices.flatten(0, 1))
    states = [torch.from_numpy(p).reshape(len(x), 4, -1) for p in patterns]
    assert torch.equal(found.counts, torch.stack([(s.any(1) & ~s.all(1)).sum(1) for s in states], 1))
    assert found.counts.sum() > 0


class EarlyUse(nn.Module):
    """A first map of the input as it came, of a view of it, or of the input changed in place; and the input again."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.how, self.one, self.two = how, nn.Linear(9, 9), nn.Linear(9, 7)
        self.conv = nn.Conv2d(1, 2, 2, padding=1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.how == "convolution":
            return F.relu(self.conv(x)).flatten(1)
        if self.how == "in place":
            x = x.mul_(0.5).add_(0.1)
        flat = x.flatten(1)
        if self.how == "turned":
            flat = x.transpose(2, 3).flatten(1)
        return F.relu(self.two(flat + F.relu(self.one(flat))))


@pytest.mark.parametrize("how", ["view", "convolution", "in place", "turned"])
def test_the_first_map_may_be_split_whatever_the_model_does_with_its_input(how: str) -> None:
    model = EarlyUse(how).double()
    x = torch.randn(6, 1, 3, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = local_complexity(model, x, radius=0.6)
    frame = random_frame(9, (1, 3, 3))
    for i, point in enumerate(x):  # one vertex at a time: nothing to split
        seen: list[list[torch.Tensor]] = [[] for _ in found.sites]
        with pytest.MonkeyPatch.context() as patch:
            for s in (1, -1):
                for v in frame:
                    calls = iter(seen)
                    patch.setattr(F, "relu", lambda z, calls=calls: (next(calls).append(z > 0), torch.relu(z))[1])
                    model((point + s * 0.6 * v)[None])
        states = [torch.cat(site) for site in seen]
        assert found.counts[i].tolist() == [int((s.any(0) & ~s.all(0)).sum()) for s in states]


def test_functional_activations_are_found_and_a_clamp_has_two_units_per_element() -> None:
    model = Residual()
    x = torch.randn(5, 6)
    found = local_complexity(model, x, radius=0.5, directions=6)
    assert [(s.op, s.units) for s in found.sites] == [("relu", 6), ("clamp", 12)]
    frame = random_frame(6, (6,)).float()
    vertices = (x[:, None] + 0.5 * torch.cat([frame, -frame])).detach()
    z1 = model.one(vertices)
    z2 = model.two(vertices + z1.relu())
    changes = lambda z: ((z > 0).any(1) & ~(z > 0).all(1)).sum(-1)  # noqa: E731
    assert torch.equal(found.counts[:, 0], changes(z1))
    assert torch.equal(found.counts[:, 1], changes(z2 + 0.5) + changes(z2 - 0.5))


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("method", ["frame", "distance"])
def test_any_module_can_be_measured_and_is_left_as_found(name: str, method: str) -> None:
    model, shape = CASES[name]
    model.float().train()
    state = {k: v.clone() for k, v in model.state_dict().items()}
    next(iter(model.children())).eval()
    flags = [m.training for m in model.modules()]
    calls: list[int] = []
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    random = torch.get_rng_state()
    found = local_complexity(
        model, torch.randn(3, *shape, generator=torch.Generator().manual_seed(0)), radius=0.2, method=method
    )
    handle.remove()
    assert torch.equal(torch.get_rng_state(), random)
    assert calls == []
    assert [m.training for m in model.modules()] == flags
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.is_grad_enabled()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert not nn.modules.module._global_forward_hooks
    assert found.counts.shape == (3, len(found.sites))
    assert all(p.grad is None for p in model.parameters())


def test_the_gate_of_a_swiglu_block_is_its_site() -> None:
    found = local_complexity(TinyTransformer(), torch.randn(2, 4, 8), radius=0.5)
    assert [(s.op, s.units) for s in found.sites] == [("silu", 4 * 16)]


def test_rows_may_lie_along_another_axis() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    other = nn.TransformerEncoderLayer(8, 2, 16, batch_first=False)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(4, 3, 8)
    first = local_complexity(layer, x, radius=0.3)
    second = local_complexity(other, x, radius=0.3, forward=lambda m, x: m(x.transpose(0, 1)))
    assert torch.equal(first.counts, second.counts)
    assert first.sites[0].units == 3 * 16


def test_pools_that_return_their_indices_count_like_those_that_do_not() -> None:
    class Pool(nn.Module):
        def __init__(self, indices: bool) -> None:
            super().__init__()
            self.pool = nn.MaxPool2d(2, return_indices=indices)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = self.pool(x)
            return out[0] if isinstance(out, tuple) else out

    x = torch.randn(3, 1, 6, 6)
    for method in ("frame", "distance"):
        a, b = (local_complexity(Pool(flag), x, radius=0.5, method=method) for flag in (False, True))
        assert torch.equal(a.counts, b.counts)
        assert a.counts.sum() > 0


def test_a_last_sigmoid_is_an_ending_and_an_inner_one_a_site() -> None:
    inner = nn.Sequential(nn.Linear(2, 4), nn.Sigmoid(), nn.Linear(4, 1), nn.Sigmoid())
    assert [s.path for s in local_complexity(inner, torch.randn(2, 2), radius=1.0).sites] == ["1"]


def test_autocast_is_respected() -> None:
    model = mlp(3, 12, 12, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = local_complexity(model, torch.randn(3, 3), radius=0.3)
    assert found.counts.shape == (3, 2)


def test_distance_of_the_first_site_equals_ray_casting() -> None:
    """A fold w.x + b = 0 is met by the ray along its normal at |w.x + b| / |w|: bisect along it."""
    model = mlp(3, 15, 15, 2).double()
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    weight, bias = model[0].weight.detach(), model[0].bias.detach()
    radius = 0.4
    counts = []
    for point in x:
        z = weight @ point + bias
        ends = point - radius * (z.sign() / weight.norm(dim=1))[:, None] * weight
        rays = point + torch.linspace(0, 1, 400, dtype=torch.float64)[:, None, None] * (ends - point)
        signs = (torch.einsum("tud,ud->tu", rays, weight) + bias) > 0
        counts.append(int((signs != signs[:1]).any(0).sum()))
    found = local_complexity(model, x, radius=radius, method="distance")
    assert found.counts[:, 0].tolist() == counts


@pytest.mark.parametrize("name", ["mlp", "convolutional", "residual"])
@pytest.mark.parametrize("max_bytes", [None, 20_000])
def test_distance_equals_numerical_gradients_at_every_site(name: str, max_bytes: int | None) -> None:
    model, shape = CASES[name]
    model.double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    radius, step = 0.3, 1e-6
    found = local_complexity(model, x, radius=radius, method="distance", max_bytes=max_bytes)
    from splinescope.complexity._sites import sites_of

    def cuts(rows: torch.Tensor) -> list[torch.Tensor]:
        values: dict[int, torch.Tensor] = {}
        with sites_of(model, x[:3], None) as net:
            net.run(rows, lambda site, z: values.__setitem__(site, z.clone()), cuts=True)
            assert net.winner == tuple(s.op == "max_pool2d" for s in net.sites)
        return list(values.values())

    basis = torch.eye(math.prod(shape), dtype=torch.float64).reshape(-1, *shape)
    for i, point in enumerate(x):
        here = cuts(point[None])
        up, down = cuts(point + step * basis), cuts(point - step * basis)
        for s, z in enumerate(here):
            norm = ((up[s] - down[s]) / (2 * step)).square().sum(0).sqrt()
            near = (norm > 1e-9) & (z[0].abs() <= radius * norm)
            assert found.counts[i, s] == int((near.any(0) if z.dim() == 3 and name == "convolutional" else near).sum())


def test_dead_units_are_never_near() -> None:
    model, _ = CASES["dead unit"]
    model.float()
    huge = local_complexity(model, torch.zeros(1, 2), radius=1e6, method="distance")
    assert int(huge.counts) == 2


@pytest.mark.parametrize("name", [n for n in cases.CASES if n != "no hidden layer"])
def test_second_derivatives_vanish_on_the_table(name: str) -> None:
    view = cases.view(name)
    x = view.inputs(view.domain[:2] / 3)
    assert all(local_complexity(cases.model(name), x, radius=0.1).affine)


class Product(nn.Module):
    """Quadratic before its only site."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.left(x) * self.right(x))


class WithoutGradients(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(4, 6)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.map(x))


@pytest.mark.parametrize(
    ("model", "shape", "affine"),
    [
        (mlp(4, 6, 6, 2), (4,), (True, True)),
        (mlp(4, 6, 6, 2, activation=nn.GELU), (4,), (True, False)),
        (
            nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.LayerNorm(6), nn.ReLU(True), nn.Linear(6, 1)),
            (4,),
            (True, False),
        ),
        (nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (3, 4), (False,)),
        (Product(), (4,), (False,)),
    ],
    ids=["relu", "gelu", "layer norm", "attention", "product"],
)
@pytest.mark.parametrize("method", ["frame", "distance"])
def test_counts_are_called_exact_only_where_the_network_is_affine(
    model: nn.Module, shape: tuple[int, ...], affine: tuple[bool, ...], method: str
) -> None:
    x = torch.zeros(3, *shape)
    found = local_complexity(model, x, radius=1e-9, method=method)
    assert found.affine == affine
    assert torch.equal(found.exact, torch.tensor([affine] * 3) & (found.counts.cumsum(1) == found.counts))
    assert bool(found.bound_holds.any()) <= all(affine)
    assert all(p.grad is None for p in model.parameters())


def test_what_has_no_derivative_is_not_certain() -> None:
    assert local_complexity(WithoutGradients(), torch.zeros(1, 4), radius=0.1).affine == (False,)


@pytest.mark.parametrize("region", ["disc", "square"])
def test_exact_equals_the_count_of_a_fine_grid(region: str) -> None:
    """Distinct patterns on a fine grid of the region are tiles (a few slivers may be missed, none invented)."""
    model = mlp(3, 8, 8, 2, seed=5).double()
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    plane = random_frame(2, (3,), generator=torch.Generator().manual_seed(7))
    found = local_complexity(model, x, radius=0.8, method="exact", directions=plane, region=region)
    t = torch.linspace(-0.8, 0.8, 601, dtype=torch.float64)
    grid = torch.cartesian_prod(t, t)
    if region == "disc":
        grid = grid[grid.norm(dim=1) < 0.8]
    for i, point in enumerate(x):
        rows = point + grid @ plane
        first = model[0](rows) > 0
        second = model[2](model[1](model[0](rows))) > 0
        patterns = torch.cat([first, second], 1)
        tiles = len(torch.unique(patterns.long() @ (2 ** torch.arange(16))))
        folds = [int((p.any(0) & ~p.all(0)).sum()) for p in (first, second)]
        assert found.tiles is not None
        assert tiles <= found.tiles[i] <= tiles + 2
        assert all(0 <= int(f) - g <= 1 for f, g in zip(found.counts[i], folds, strict=True))


def test_exact_on_a_square_equals_the_tiling() -> None:
    model = mlp(2, 10, 10, 1).double()
    found = local_complexity(
        model, torch.zeros(1, 2), radius=1.0, method="exact", region="square", directions=torch.eye(2)
    )
    tiling = ss.tessellate(model, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
    assert found.tiles is not None
    assert int(found.tiles) == tiling.count
    assert int(found.total) == len(np.unique(tiling.walls.units[tiling.walls.units >= 0]))


def test_a_frame_of_two_directions_never_counts_more_than_the_exact_diamond() -> None:
    """The hull of x +- r e_1, x +- r e_2 is a square turned by 45 degrees with half side r / sqrt 2."""
    model = mlp(2, 16, 16, 1, seed=2).double()
    x = torch.randn(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    turned = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64) / math.sqrt(2)
    frame = local_complexity(model, x, radius=0.5, directions=torch.eye(2))
    exact = local_complexity(model, x, radius=0.5 / math.sqrt(2), method="exact", region="square", directions=turned)
    assert (frame.counts <= exact.counts).all()
    assert torch.equal(frame.counts[frame.exact], exact.counts[frame.exact])
    assert frame.exact[:, 0].all()


def test_zaslavsky_bounds_tiles_where_no_fold_bends() -> None:
    model = mlp(2, 12, 12, 1, seed=3).double()
    x = torch.randn(60, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    found = local_complexity(model, x, radius=0.12, method="exact")
    assert found.tiles is not None
    holds = found.bound_holds
    assert 5 < holds.sum() < 60
    assert (found.tiles[holds] <= found.tile_bound[holds].round()).all()
    assert (found.tiles >= found.total + 1)[holds].all()


def test_the_sawtooth_breaks_the_bound_where_folds_bend() -> None:
    """Depth 3, |2x - 1| thrice: 8 tiles from 3 folds per site, beyond Zaslavsky's 4."""

    class Sawtooth(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x[:, :1]
            for _ in range(3):
                x = (2 * x - 1).abs()
            return x

    found = local_complexity(
        Sawtooth(), torch.tensor([[0.5, 0.0]]), radius=0.5, method="exact", region="square", directions=torch.eye(2)
    )
    assert found.tiles is not None
    assert int(found.tiles) == 8
    assert int(found.total) == 3
    assert int(found.tile_bound.round()) == 7  # sum_{j <= 2} C(3, j)
    assert not bool(found.bound_holds)


@pytest.mark.parametrize(("size", "count"), [(784, 25), (3072, 20), (5, 5), (3, 1)])
def test_frame_reach_is_the_mean_of_the_largest_cosine(size: int, count: int) -> None:
    normals = torch.randn(4000, size, generator=torch.Generator().manual_seed(0))
    largest = (normals / normals.norm(dim=1, keepdim=True))[:, :count].abs().amax(1)
    spread = float(largest.std()) / math.sqrt(4000)
    assert frame_reach(size, count) == pytest.approx(float(largest.mean()), abs=4 * spread)  # four standard errors
    assert calibrated_radius(0.1, size, count) == pytest.approx(0.1 / frame_reach(size, count))


def test_a_calibrated_frame_counts_like_the_distance_of_the_first_site() -> None:
    model = mlp(100, 2000, 1).double()
    x = torch.randn(10, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    near = local_complexity(model, x, radius=0.05, method="distance").total.double().mean()
    frame = local_complexity(model, x, radius=calibrated_radius(0.05, 100, 25)).total.double().mean()
    assert float(frame) == pytest.approx(float(near), rel=0.1)  # reach varies about its mean; density is nearly flat


def test_traced_networks_can_be_measured() -> None:
    model = mlp(3, 12, 12, 2).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    network = ss.trace(model, x[:1])
    for method in ("frame", "distance", "exact"):
        a = local_complexity(model, x, radius=0.3, method=method)
        b = local_complexity(network, x, radius=0.3, method=method)
        assert torch.equal(a.counts, b.counts)


def test_no_points_give_no_counts() -> None:
    for method in ("frame", "distance", "exact"):
        assert local_complexity(mlp(3, 4, 1), torch.zeros(0, 3), radius=1.0, method=method).counts.shape == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"radius": 0.0}, "radius must be a positive"),
        ({"radius": 1.0, "method": "magic"}, "method must be one of"),
        ({"radius": "big"}, "radius must be a positive"),
        ({"radius": 1.0, "directions": 4}, "between 1 and the input size 3"),
        ({"radius": 1.0, "directions": 1.5}, "whole number"),
        ({"radius": 1.0, "generator": 0}, "generator must be a torch.Generator"),
        ({"radius": 1.0, "directions": torch.ones(2, 3)}, "orthonormal"),
        ({"radius": 1.0, "directions": torch.ones(2, 4)}, r"shape \(P, 3\)"),
        ({"radius": 1.0, "directions": 2, "method": "distance"}, "belong to"),
        ({"radius": 1.0, "directions": 3, "method": "exact"}, "span the plane"),
        ({"radius": 1.0, "max_bytes": 0}, "max_bytes"),
    ],
)
def test_bad_arguments_are_named(arguments: dict, message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 3), **arguments)


@pytest.mark.parametrize("method", ["frame", "distance", "exact"])
def test_a_model_in_training_or_inference_mode_counts_as_in_eval_mode(method: str) -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    expected = local_complexity(model.eval(), x, radius=0.5, method=method).counts
    assert expected.sum() > 0
    assert torch.equal(local_complexity(model.train(), x, radius=0.5, method=method).counts, expected)
    assert all(module.training for module in model.modules())
    with torch.inference_mode():
        assert torch.equal(local_complexity(model, x, radius=0.5, method=method).counts, expected)


def test_bad_models_and_points_are_named() -> None:
    with pytest.raises(ss.InputError, match=r"rows have shape \(5,\)"):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 5), radius=1.0)
    with pytest.raises(ss.InputError, match="at least 2 numbers"):
        local_complexity(mlp(1, 4, 1), torch.zeros(1, 1), radius=1.0, method="exact")
    with pytest.raises(ss.InputError, match="floating-point"):
        local_complexity(mlp(3, 4, 1), torch.zeros(1, 3, dtype=torch.int64), radius=1.0)
    with pytest.raises(ss.UnsupportedModelError, match="No activation was seen"):
        local_complexity(nn.Linear(3, 1), torch.zeros(1, 3), radius=1.0)
    broken = mlp(3, 4, 1)
    with torch.no_grad():
        broken[0].weight[0, 0] = math.nan
    with pytest.raises(ss.InputError, match=r"NaN at 1 \(relu\)"):
        local_complexity(broken, torch.zeros(1, 3), radius=1.0)

    class Mixes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x - x.mean(0))

    with pytest.raises(ss.UnsupportedModelError, match="other rows"):
        local_complexity(Mixes(), torch.randn(4, 3), radius=1.0)

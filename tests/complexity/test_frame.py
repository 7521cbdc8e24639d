"""The frame method against a plain re-implementation, and what its reach means."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope.complexity import local_complexity
from splinescope.complexity.neighborhoods import calibrated_radius, frame_reach, random_frame
from splinescope.network.program import units_of_cuts

from .. import cases
from .models import case, mlp

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
    model, shape = case(name)
    model.double()
    x = torch.randn(7, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    frame = random_frame(min(5, math.prod(shape)), shape, generator=torch.Generator().manual_seed(2))
    found = local_complexity(model, x, radius=0.3, directions=frame, chunk_bytes=max_bytes)
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
    network = cases.tiling(name).network
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


def test_a_frame_of_two_directions_never_counts_more_than_the_exact_diamond() -> None:
    """The hull of x +- r e_1, x +- r e_2 is a square turned by 45 degrees with half side r / sqrt 2."""
    model = mlp(2, 16, 16, 1, seed=2).double()
    x = torch.randn(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    turned = torch.tensor([[1.0, 1.0], [-1.0, 1.0]], dtype=torch.float64) / math.sqrt(2)
    frame = local_complexity(model, x, radius=0.5, directions=torch.eye(2))
    exact = torch.zeros_like(frame.counts)
    for i, point in enumerate(x):
        cuts = ss.tessellate(model, ss.Slice.box(point, turned, 0.5 / math.sqrt(2))).walls.cuts
        sites, _ = units_of_cuts(frame.sites, np.unique(cuts[cuts >= 0]))
        exact[i] = torch.from_numpy(np.bincount(sites, minlength=2))
    assert (frame.counts <= exact).all()
    assert torch.equal(frame.counts[frame.exact], exact[frame.exact])
    assert frame.exact[:, 0].all()


@pytest.mark.parametrize(("size", "count"), [(784, 25), (3072, 20), (5, 5), (3, 1)])
def test_frame_reach_is_the_mean_of_the_largest_cosine(size: int, count: int) -> None:
    normals = torch.randn(4000, size, generator=torch.Generator().manual_seed(0))
    largest = (normals / normals.norm(dim=1, keepdim=True))[:, :count].abs().amax(1)
    spread = float(largest.std()) / math.sqrt(4000)
    assert frame_reach(size, count) == pytest.approx(float(largest.mean()), abs=4 * spread)  # four standard errors
    assert calibrated_radius(0.1, size, count) == pytest.approx(0.1 / frame_reach(size, count))


def test_frames_are_uniform_and_do_not_prefer_a_side() -> None:
    """LAPACK's Q has a sign of its own (its first entry is never positive): a uniform frame has none."""
    draws = 400
    entries = torch.stack([random_frame(2, (3,), generator=torch.Generator().manual_seed(i)) for i in range(draws)])
    bound = 4.5 * (1 / 3) ** 0.5 / draws**0.5  # of a mean of entries with variance 1/3
    assert entries.mean(0).abs().max() < bound
    assert (entries.square().mean(0) - 1 / 3).abs().max() < 4.5 * 0.3 / draws**0.5

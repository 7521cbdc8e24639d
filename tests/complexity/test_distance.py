"""The distance method against ray casting and numerical gradients."""

import math

import pytest
import torch
from torch import Tensor, nn

from splinescope.complexity import local_complexity
from splinescope.complexity.linear_distance import heights_and_slopes
from splinescope.network.watching.sites import sites_of

from .models import case, mlp


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
    model, shape = case(name)
    model.double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    radius, step = 0.3, 1e-6
    found = local_complexity(model, x, radius=radius, method="distance", chunk_bytes=max_bytes)

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


class ScalarRow(nn.Module):
    """One number per row bends: |w . x|, |w| = 5."""

    def forward(self, x: Tensor) -> Tensor:
        return (x * torch.tensor([3.0, 4.0])).sum(1).relu().unsqueeze(1)


def test_a_site_of_one_number_per_row_has_a_distance() -> None:
    x = torch.tensor([[0.0, 0.1], [1.0, 1.0]])  # at distances 0.4 / 5 and 7 / 5
    assert local_complexity(ScalarRow(), x, radius=0.1, method="distance").counts.ravel().tolist() == [1, 0]
    with sites_of(ScalarRow(), torch.randn(3, 2), None) as net:
        _, squares = heights_and_slopes(net, x, [torch.eye(2)])
    torch.testing.assert_close(squares[0], torch.full((2,), 25.0))


def test_dead_units_are_never_near() -> None:
    model, _ = case("dead unit")
    model.float()
    huge = local_complexity(model, torch.zeros(1, 2), radius=1e6, method="distance")
    assert int(huge.counts) == 2

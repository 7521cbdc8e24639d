"""Lipschitz constants against all activation patterns, feasible or not by linear programs."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import nn

import splinescope as ss
from tests import cases

NORMS = (1, 2, np.inf)


def network(seed: int, *widths: int, change: str = "") -> nn.Sequential:
    torch.manual_seed(seed)
    net = cases.mlp(*widths).double()
    with torch.no_grad():
        for layer in net[::2]:
            if change == "zero bias":
                layer.bias.zero_()
            if change == "duplicate unit" and len(layer.weight) > 2:
                layer.weight[1], layer.bias[1] = layer.weight[0], layer.bias[0]
                layer.weight[2], layer.bias[2] = -2 * layer.weight[0], -2 * layer.bias[0]
            if change == "dead unit":
                layer.weight[0], layer.bias[0] = 0.0, -1.0
    return net


def by_patterns(net: nn.Sequential, box: float | None, basis: np.ndarray | None = None) -> dict[float, float]:
    """The largest norm over all patterns of two hidden layers whose polytope holds a ball."""
    layers = [(m.weight.detach().numpy(), m.bias.detach().numpy()) for m in net[::2]]
    (w1, b1), (w2, b2), (w3, _) = layers
    d = w1.shape[1]
    best = dict.fromkeys(NORMS, 0.0)
    for one in product((0.0, 1.0), repeat=len(b1)):
        a1, c1 = np.diag(one) @ w1, np.diag(one) @ b1
        if not _holds_a_ball([(w1, b1, one)], d, box):
            continue
        for two in product((0.0, 1.0), repeat=len(b2)):
            a2, c2 = w2 @ a1, w2 @ c1 + b2
            if _holds_a_ball([(w1, b1, one), (a2, c2, two)], d, box):
                slope = w3 @ np.diag(two) @ a2
                slope = slope if basis is None else slope @ basis.T
                best = {p: max(best[p], float(np.linalg.norm(slope, p))) for p in NORMS}
    return best


def _holds_a_ball(constraints: list, d: int, box: float | None) -> bool:
    """Whether `s (w x + b) >= r |w|` for all units, in the box, for some r > 0 that is more than rounding."""
    rows, ends = [], []
    for w, b, pattern in constraints:
        for weight, bias, on in zip(w, b, pattern, strict=True):
            sign, size = (1.0 if on else -1.0), np.linalg.norm(weight)
            if size < 1e-12:
                if (bias > 0) != bool(on):
                    return False
                continue
            rows.append(np.append(-sign * weight / size, 1.0))
            ends.append(sign * bias / size)
    reach = 1e6 if box is None else box
    bounds = [(-reach, reach)] * d + [(0, 1.0)]
    found = linprog(np.append(np.zeros(d), -1.0), np.array(rows), np.array(ends), bounds=bounds)
    return bool(found.success and found.x[-1] > 1e-9)


@pytest.mark.parametrize("change", ["", "zero bias", "duplicate unit", "dead unit"])
@pytest.mark.parametrize("box", [None, 0.7])
def test_the_constant_is_the_largest_over_all_patterns(change: str, box: float | None) -> None:
    net = network(3, 2, 4, 3, 2, change=change)
    expected = by_patterns(net, box)
    for norm in NORMS:
        found = ss.guarantees.lipschitz(net, None if box is None else (-box, box), norm)
        assert found.constant == pytest.approx(expected[norm], rel=1e-10)
        assert found.rounding < 1e-11 or (box is None and change == "dead unit")
        assert np.linalg.norm(found.slope, norm) == pytest.approx(found.constant, rel=1e-10)
        at = net(torch.from_numpy(found.point)).detach().numpy()
        np.testing.assert_allclose(found.slope @ found.point + found.offset, at, atol=1e-9 * max(1.0, np.abs(at).max()))


@pytest.mark.parametrize("seed", range(6))
def test_units_that_are_zero_on_whole_tiles_leave_constants_and_slopes_exact(seed: int) -> None:
    plain = network(seed, 2, 5, 1)
    doubled = nn.Sequential(plain[0], plain[1], nn.ReLU(), plain[2])  # zero wherever the first ReLU is
    inside = (torch.rand(4000, 2, dtype=torch.float64) * 4 - 2).requires_grad_()
    (slopes,) = torch.autograd.grad(doubled(inside).sum(), inside)
    found = ss.guarantees.lipschitz(doubled, (-2.0, 2.0))
    assert found.constant >= slopes.norm(dim=1).max() * (1 - 1e-12)
    assert found.constant == pytest.approx(ss.guarantees.lipschitz(plain, (-2.0, 2.0)).constant, rel=1e-12)
    verdict = ss.verify(doubled, ss.guarantees.Property.monotone(0), (-2.0, 2.0))
    assert verdict.margin <= slopes[:, 0].min() + 1e-12
    assert verdict.holds is (False if slopes[:, 0].min() < 0 else verdict.holds)


def test_folds_through_an_end_of_the_set_are_exact_and_a_sliver_behind_them_is_not_denied() -> None:
    net = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():  # slopes -7 and 1
        net[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        net[2].weight.copy_(torch.tensor([[1.0, 7.0]]))
    for low, steepest in ((0.0, 1.0), (-1e-17, 7.0), (-1e-12, 7.0), (-1e-5, 7.0)):
        found = ss.guarantees.lipschitz(net, ([low], [1.0]))
        assert found.constant - found.rounding <= steepest <= found.constant + found.rounding
        assert found.certainty == ("bound" if -1e-5 < low < 0 else "exact")


def test_cells_far_away_count_in_all_of_space() -> None:
    """Two nearly parallel folds meet at about 1e5; behind them is the steepest cell."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 1e-5], [-1.0, 1e-5]]))
        net[0].bias.fill_(-1.0)
        net[2].weight.copy_(torch.tensor([[1.0, -1.0]]))
    everywhere = ss.guarantees.lipschitz(net)
    assert everywhere.constant == pytest.approx(2.0, rel=1e-9)
    assert np.abs(everywhere.point).max() > 1e5
    assert ss.guarantees.lipschitz(net, (-100.0, 100.0)).constant == pytest.approx(np.hypot(1.0, 1e-5), rel=1e-12)


def test_on_a_plane_the_constant_is_that_of_differences_along_it() -> None:
    net = network(0, 5, 8, 6, 3)
    with pytest.raises(ss.LimitReached, match="not known"):
        ss.guarantees.lipschitz(net, (np.zeros(5), [1.0, 1.0, 1.0, 0.0, 0.0]), max_tiles=2)
    random = torch.Generator().manual_seed(1)
    oblique = ss.Slice.box(np.zeros(5), 2, 1.0, generator=random)
    along = ss.guarantees.lipschitz(net, oblique)
    tiling = ss.tessellate(net, oblique)
    assert along.constant == pytest.approx(tiling.slope_norms().max(), rel=1e-9)
    stretched = ss.Slice(oblique.origin, 3.0 * oblique.basis, oblique.domain / 3.0)
    assert ss.guarantees.lipschitz(net, stretched).constant == pytest.approx(along.constant, rel=1e-12)
    fixed = ss.guarantees.lipschitz(net, ([-1.0, 0.5, -1.0, 0.0, 0.0], [1.0, 0.5, 1.0, 0.0, 0.0]), 1)
    view = ss.Slice.axes([0.0, 0.5, 0.0, 0.0, 0.0], (0, 2), -1.0, 1.0)
    slopes = ss.tessellate(net, view).slopes()
    assert fixed.constant == pytest.approx(np.abs(slopes).sum(1).max(), rel=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"norm": 3}, "norm must be 1, 2 or infinity"),
        ({"over": (1.0, -1.0)}, "empty"),
        ({"over": (0.5, 0.5)}, "free"),
        ({"over": "all"}, "over must be"),
        ({"over": ss.Slice.box(np.zeros(3), 2, generator=torch.Generator().manual_seed(0)), "norm": 1}, "axes"),
        ({"model": nn.Sequential(nn.Linear(3, 4), nn.ReLU6(), nn.Linear(4, 1))}, "bends elsewhere"),
        ({"model": nn.Sequential(nn.Linear(9, 4), nn.ReLU(), nn.Linear(4, 1))}, "up to 8 inputs"),
        ({"model": nn.Sequential(nn.Conv1d(1, 2, 2), nn.ReLU())}, "not known"),
        ({"model": "net.onnx"}, "must be an existing file"),
        ({"model": 5}, "model must be"),
    ],
)
def test_what_has_no_constant_is_refused(given: dict, message: str) -> None:
    with pytest.raises(ss.InputError, match=message):
        ss.guarantees.lipschitz(**{"model": cases.mlp(3, 4, 2), **given})

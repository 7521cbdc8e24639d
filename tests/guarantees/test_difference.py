"""The largest difference of two networks against random search, and proofs that there is none."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from tests import cases


def pair(seed: int, *widths: int, noise: float = 1e-2) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(seed)
    f = cases.mlp(*widths).double()
    g = copy.deepcopy(f)
    with torch.no_grad():
        for parameter in g.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    return f, g


@pytest.mark.parametrize("widths", [(1, 8, 6, 2), (2, 8, 6, 2), (3, 6, 5, 1)])
def test_no_random_point_has_more_and_the_point_has_it(widths: tuple[int, ...]) -> None:
    f, g = pair(0, *widths)
    found = ss.guarantees.difference(f, g, (-1.0, 1.0))
    x = 2 * torch.rand(20_000, widths[0], dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    seen = (f(x) - g(x)).abs().max(0).values.detach().numpy()
    assert (found.largest >= seen - found.tolerance).all()
    assert (found.largest <= 1.5 * seen).all()
    at = torch.from_numpy(found.points)
    np.testing.assert_allclose((f(at) - g(at)).diagonal().detach().numpy(), found.signed, atol=1e-12)
    np.testing.assert_allclose(np.abs(found.signed), found.largest)
    assert found.certainty == "exact"


@pytest.mark.parametrize("name", ["max-pool", "residual", "zero bias", "duplicate units", "dead units"])
def test_a_network_does_not_differ_from_itself(name: str) -> None:
    model, view = cases.model(name), cases.view(name)
    found = ss.guarantees.difference(model, copy.deepcopy(model), view, 1e-6)
    assert found.below is True
    assert ss.guarantees.difference(model, model, view).largest.max() <= found.tolerance < 1e-9


def test_a_bound_drops_tiles_and_changes_no_verdict() -> None:
    f, g = pair(2, 3, 10, 8, 2)
    whole = ss.guarantees.difference(f, g, (-1.0, 1.0))
    top = whole.largest.max()
    for share in (0.5, 0.999, 1.001, 3.0):
        found = ss.guarantees.difference(f, g, (-1.0, 1.0), share * top)
        assert found.below is (share > 1)
        assert found.tiles < whole.tiles
        exact = whole.largest >= share * top
        np.testing.assert_allclose(found.largest[exact], whole.largest[exact], rtol=1e-12)
        assert (found.largest[~exact] == share * top).all()
        assert found.certainty == ("exact" if exact.all() else "bound")
    tie = ss.guarantees.difference(f, g, (-1.0, 1.0), float(top))
    assert tie.below is None
    assert "hangs on rounding" in tie.summary()


def test_one_point_is_a_set() -> None:
    f, g = pair(0, 2, 6, 3)
    found = ss.guarantees.difference(f, g, ([0.5, 0.5], [0.5, 0.5]))
    x = torch.full((1, 2), 0.5, dtype=torch.float64)
    np.testing.assert_allclose(found.signed, (f(x) - g(x))[0].detach().numpy(), atol=1e-14)


def test_what_cannot_be_compared_is_refused() -> None:
    f, _ = pair(0, 2, 6, 3)
    for g, message in (
        (cases.mlp(2, 6, 2), "same inputs and outputs"),
        (nn.Sequential(cases.mlp(2, 6, 3), nn.Softmax(1)), "end alike"),
        (nn.Sequential(nn.Linear(3, 3)), "does not|same|run|shape"),
    ):
        with pytest.raises(ss.SplinescopeError, match=message):
            ss.guarantees.difference(f, g, (-1.0, 1.0))
    with pytest.raises(ss.InputError, match="eps"):
        ss.guarantees.difference(f, f, (-1.0, 1.0), -1.0)
    with pytest.raises(ss.LimitReached, match="not known"):
        ss.guarantees.difference(*pair(1, 2, 12, 12, 2), (-1.0, 1.0), max_tiles=3)

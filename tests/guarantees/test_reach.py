"""How far verify reaches: limits, interruption, workers, smooth networks, several networks at once."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property, read_vnnlib, verify

from .test_verify import mlp


def test_workers_give_the_same_verdicts_and_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[verify.__module__], "BEFORE_ATTACK", 5)  # otherwise no process is started here
    net = mlp(3, 8, 6, 2, seed=2)
    least = float(ss.output_range(net, (-1.0, 1.0)).low[0])
    shared = verify(net, Property.between(0, least - 1e-4), (-1.0, 1.0), workers=2)
    assert shared.holds is True
    assert shared.rigorous
    assert shared.tiles > 16  # of the parts
    asked, triangle = Property.between(0, 0.0), ss.guarantees.polytope([[1.0, 1.0, 1.0]], [1.0], (0.0, 1.0))
    volumes = [verify(net, asked, triangle, complete=True, workers=n).unsafe.volume for n in (None, 2)]
    assert volumes[0] == pytest.approx(volumes[1], rel=1e-9)
    assert volumes[0] > 0


def test_an_interruption_leaves_nothing_behind() -> None:
    net = mlp(3, 10, 8, 2, seed=2)
    asked = Property.between(0, float(ss.output_range(net, (-1.0, 1.0)).low[0]) - 1e-6)

    def interrupt(share: float, what: str) -> None:
        raise KeyboardInterrupt

    threads = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        verify(net, asked, (-1.0, 1.0), progress=interrupt)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert verify(net, asked, (-1.0, 1.0)).holds is True


def test_the_margin_respects_the_limits_of_its_call() -> None:
    net = mlp(3, 12, 12, 2, seed=2)
    high = float(ss.output_range(net, (-1.0, 1.0)).high[0])
    verdict = verify(net, Property.between(0, high=high + 50.0), (-1.0, 1.0), max_tiles=20)
    assert verdict.holds is True  # bounds alone decide
    with pytest.raises(ss.LimitReached, match="margin is at most"):
        _ = verdict.margin
    assert verify(net, Property.between(0, high=high + 50.0), (-1.0, 1.0)).margin == pytest.approx(50.0)


@pytest.mark.parametrize("activation", [nn.Tanh, nn.GELU])
def test_a_smooth_network_holds_only_by_more_than_the_tolerance(activation: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), activation(), nn.Linear(6, 1)).double()
    x = torch.cartesian_prod(*[torch.linspace(-1, 1, 401, dtype=torch.float64)] * 2)
    least = float(net(x).detach().min())  # by a grid; the true one is within 1e-4
    sure = verify(net, Property.between(0, least - 0.05), (-1.0, 1.0), tolerance=0.02)
    assert sure.holds is True
    assert not sure.rigorous
    assert "Not rigorous" in sure.reason
    assert sure.certainty == "bound"
    assert 0 < sure.rounding <= 0.021
    close = verify(net, Property.between(0, least - 0.005), (-1.0, 1.0), tolerance=0.02)
    assert close.holds is None
    assert "within" in close.reason
    assert verify(net, Property.between(0, least - 0.005), (-1.0, 1.0), tolerance=0.001).holds is True
    violated = verify(net, Property.between(0, least + 0.005), (-1.0, 1.0), tolerance=0.02)
    assert violated.holds is False
    assert violated.witness is not None
    assert float(net(torch.from_numpy(violated.witness.x[None])).detach()) < least + 0.005
    with pytest.raises(ss.UnsupportedModelError):
        verify(net, Property.between(0, 0.0), (-1.0, 1.0))
    with pytest.raises(ss.InputError, match="piecewise-affine"):
        verify(net, Property.between(0, 0.0), (-1.0, 1.0), tolerance=0.1, complete=True)


SAME = """(vnnlib-version <2.0>)
(declare-network f (declare-input X Real [2]) (declare-output Y Real [2]))
(declare-network g (declare-input A Real [2]) (declare-output B Real [2]))
(assert (and (>= X[0] -1) (<= X[0] 1) (>= X[1] -1) (<= X[1] 1)))
(assert (and (== X[0] A[0]) (== X[1] A[1])))
(assert (or (>= (- Y[0] B[0]) {0}) (<= (- Y[0] B[0]) -{0})))
"""


def test_two_networks_are_equivalent_up_to_their_exact_difference(tmp_path: Path) -> None:
    f = mlp(2, 6, 5, 2, seed=1)
    g = copy.deepcopy(f)
    with torch.no_grad():
        g[2].weight.add_(0.02 * torch.randn_like(g[2].weight))
    largest = float(ss.guarantees.difference(f, g, (-1.0, 1.0)).largest[0])
    for share in (0.999, 1.001):
        file = tmp_path / "same.vnnlib"
        file.write_text(SAME.format(share * largest))
        by_name, in_order = verify({"f": f, "g": g}, file), verify([f, g], file)
        assert by_name.holds is in_order.holds is (share > 1)
        assert by_name.rigorous
        if (seen := by_name.witness) is not None:  # both ran it themselves
            x = torch.from_numpy(seen.tensors["X"])
            assert seen.confirmed
            assert np.array_equal(seen.seen_y, torch.cat([f(x), g(x)]).detach().numpy())
    assert verify([f, g], file).margin == pytest.approx(0.001 * largest, rel=1e-6)
    file.write_text(SAME.format(1e-3).replace("(declare-network g", "(declare-network g (equal-to f)"))
    assert verify({"f": f}, file).holds is True
    assert verify([f], file).holds is True
    assert len(read_vnnlib(file).networks) == 2
    file.write_text(SAME.format(1e-3))
    for given, words in (({"f": f}, "networks f, g"), ([f], "networks f, g"), (f, "networks f, g"),
                         ([f, mlp(2, 4, 3)], "network g")):  # fmt: skip
        with pytest.raises(ss.InputError, match=words):
            verify(given, file)
    with pytest.raises(ss.InputError, match="about 1 network"):
        verify([f, g], Property.between(0, 0.0), (-1.0, 1.0))
    with pytest.raises(ss.InputError, match=r"holds parameters, .*load_state_dict"):
        verify(f.state_dict(), Property.between(0, 0.0), (-1.0, 1.0))
    with pytest.raises(ss.InputError, match="without workers"):
        verify([f, g], file, workers=2)


def test_networks_on_inputs_of_their_own_have_all_their_dimensions(tmp_path: Path) -> None:
    f = mlp(1, 4, 1, seed=1)
    file = tmp_path / "apart.vnnlib"
    text = """(declare-network f (declare-input X Real [1]) (declare-output Y Real [1]))
(declare-network g (equal-to f) (declare-input A Real [1]) (declare-output B Real [1]))
(assert (and (>= X[0] 0) (<= X[0] 1) (>= A[0] 0) (<= A[0] 1) (>= (- X[0] A[0]) 0)))
(assert (<= (- Y[0] B[0]) {}))"""
    x = np.linspace(0, 1, 301)
    y = f(torch.from_numpy(x[:, None])).detach().numpy()[:, 0]
    least = min((y[i:] - y[i]).min() for i in range(len(x)))  # over pairs with X at least A
    for shift in (-1e-3, 1e-3):
        file.write_text(text.format(least + shift))
        assert verify([f], file).holds is (shift < 0)

"""One table of losses for the whole package: names mean the same in every part, and what torch means by them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import splinescope as ss
from splinescope.meanfield.functions import as_loss
from splinescope.support.losses import LOSSES, class_numbers, fitting_targets, summed

torch.manual_seed(0)
NET = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3)).eval().double()
X = torch.randn(11, 2, dtype=torch.float64)
TARGETS = {
    "squared": torch.randn(11, 3, dtype=torch.float64),
    "mse": torch.randn(11, 3, dtype=torch.float64),
    "cross_entropy": torch.arange(11) % 3,
    "bce": (torch.arange(33).reshape(11, 3) % 2).double(),
    "logistic": 2.0 * (torch.arange(33).reshape(11, 3) % 2).double() - 1,
}
OF_TORCH = {
    "squared": lambda f, y: (f - y).square().mean() * 3,  # functorch cannot take F.mse_loss twice
    "mse": lambda f, y: (f - y).square().mean(),
    "cross_entropy": F.cross_entropy,
    "bce": F.binary_cross_entropy_with_logits,
    "logistic": lambda f, y: F.softplus(-y * f).mean() * 3,
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_named_loss_is_that_of_torch_in_surfaces_and_curvature(name):
    y = TARGETS[name]
    with torch.no_grad():
        value = float(OF_TORCH[name](NET(X), y))
        if name == "mse":
            assert value == pytest.approx(float(F.mse_loss(NET(X), y)))
        assert float(summed(name)(NET(X), y)) / len(X) == pytest.approx(value)
    moves = ss.landscape.random_directions(NET, 1, generator=torch.Generator().manual_seed(0))
    assert ss.loss_surface(NET, X, y, moves, resolution=3, loss=name).losses[1] == pytest.approx(value)
    for kind in ("ggn", "hessian"):
        named, given = (ss.curvature(NET, X, y, loss=loss, kind=kind).dense() for loss in (name, OF_TORCH[name]))
        assert named == pytest.approx(given, abs=1e-12)


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if loss.of_number is not None])
def test_slopes_in_closed_form_are_derivatives(name):
    f = torch.linspace(-3, 3, 13, dtype=torch.float64, requires_grad=True)
    y = torch.ones_like(f)
    loss = as_loss(name)
    (slope,) = torch.autograd.grad(loss.value(f, y).sum(), f)
    assert torch.allclose(loss.slope(f.detach(), y), slope)
    f = f.detach()
    half = 0.5 if name == "squared" else 1.0  # mean-field theory takes half the square
    assert float(loss.value(f, y).sum()) == pytest.approx(half * float(summed(name)(f[:, None], y[:, None])))


def test_distributions_over_classes_are_targets_of_the_cross_entropy():
    y = torch.softmax(torch.randn(11, 3, dtype=torch.float64), 1)
    named = ss.curvature(NET, X, y, loss="cross_entropy", kind="hessian").dense()
    assert named == pytest.approx(ss.curvature(NET, X, y, loss=F.cross_entropy, kind="hessian").dense())
    with pytest.raises(ss.InputError, match="probabilities that sum to 1"):
        ss.curvature(NET, X, 2 * y, loss="cross_entropy")


def test_labels_that_a_loss_does_not_take_are_refused():
    with pytest.raises(ss.InputError, match="labels 0 to 1 for the binary cross-entropy, got -1"):
        ss.curvature(NET, X, TARGETS["logistic"], loss="bce")
    with pytest.raises(ss.InputError, match="labels -1 and 1 for the logistic loss, got 0"):
        ss.curvature(NET, X, TARGETS["bce"], loss="logistic")
    with pytest.raises(ss.InputError, match=r"for each output, shape \(N, 3\)"):
        ss.curvature(NET, X, torch.zeros(11), loss="bce")
    with pytest.raises(ss.InputError, match="for classes pass loss='cross_entropy'"):
        ss.curvature(NET, X, torch.zeros(11, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_labels_in_a_column_mean_what_they_mean_in_a_row(width, dtype):
    y = (torch.arange(11) % 2).to(dtype)
    row, column = (class_numbers(labels, (width,)) for labels in (y, y[:, None]))
    assert row is not None
    assert column is not None
    assert row.equal(column)
    for name, loss in LOSSES.items():
        if loss.takes == "numbers" or (loss.takes == "classes") == (width > 1):
            row, column = (fitting_targets(name, labels, (width,), torch.float64) for labels in (y, y[:, None]))
            if row.numel() == 11 * width or loss.takes == "classes":
                assert row.equal(column), name


@pytest.mark.parametrize("y", [torch.tensor([0.5, 1, 2, 1]), torch.tensor([0.0, 1, 2, 1])], ids=["parts", "three"])
def test_numbers_to_regress_on_are_no_labels_in_a_column_either(y):
    assert class_numbers(y, (1,)) is None
    assert class_numbers(y[:, None], (1,)) is None

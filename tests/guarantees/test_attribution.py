"""Integrated gradients are exact: they add up, and Riemann sums converge to them."""

import numpy as np
import pytest
import torch
from captum.attr import IntegratedGradients
from torch import Tensor, nn

import splinescope as ss
from tests import cases, real


def riemann(model: nn.Module, x: Tensor, baseline: Tensor, target: int, steps: int) -> Tensor:
    """The sum over midpoints that other packages take, by the model's own gradients."""
    shares = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
    found = []
    for end in x:
        points = (baseline + shares.reshape(-1, *[1] * end.dim()) * (end - baseline)).requires_grad_()
        y = model(points).reshape(steps, -1)[:, target].sum()
        found.append((end - baseline) * torch.autograd.grad(y, points)[0].mean(0))
    return torch.stack(found)


def points_of(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    model, view = cases.model(name).double(), cases.view(name)
    corners = torch.from_numpy(view.inputs(view.domain))
    return model, corners[1:], corners[0]


@pytest.mark.parametrize("name", sorted(cases.CASES))
def test_attributions_add_up_and_riemann_sums_converge_to_them(name: str) -> None:
    model, x, baseline = points_of(name)
    found = ss.integrated_gradients(model, x, baseline, 0)
    assert found.attributions.shape == x.shape
    assert found.certainty == "exact"
    scale = np.abs(found.values).max() + np.abs(found.baseline_values).max()
    if found.ending is None:
        own = (model(x).reshape(len(x), -1)[:, 0] - model(baseline[None]).reshape(-1)[0]).detach().numpy()
        np.testing.assert_allclose(found.values - found.baseline_values, own, atol=1e-12 * scale)
    largest = max(float(found.attributions.abs().max()), float(scale))
    assert np.abs(found.gaps).max() <= 1e-11 * largest
    if found.ending is None:
        coarse, fine = (riemann(model, x, baseline, 0, steps) for steps in (50, 3200))
        errors = [float((sums - found.attributions).abs().max()) for sums in (coarse, fine)]
        assert errors[1] <= max(0.1 * errors[0], 1e-12 * largest)
        assert errors[1] <= 1e-2 * largest


def test_captum_converges_to_the_exact_attributions() -> None:
    torch.manual_seed(0)
    model = cases.mlp(4, 12, 8, 3).double()
    x, baseline = torch.randn(2, 5, 4, dtype=torch.float64)
    exact = ss.integrated_gradients(model, x, baseline, 1).attributions
    sums = IntegratedGradients(model)
    errors = [
        float((sums.attribute(x, baseline, target=1, n_steps=n, method="riemann_middle") - exact).abs().max())
        for n in (20, 200, 20_000)
    ]
    assert errors[2] < 1e-4 * float(exact.abs().max()) < errors[0]
    assert errors[2] < errors[1] < errors[0]


def test_each_row_may_have_its_own_baseline_and_target() -> None:
    torch.manual_seed(0)
    model = cases.mlp(4, 12, 8, 3).double()
    x, baseline = torch.randn(2, 5, 4, dtype=torch.float64)
    targets = [0, 2, 1, 1, 0]
    found = ss.integrated_gradients(model, x, baseline, targets)
    for n, target in enumerate(targets):
        alone = ss.integrated_gradients(ss.trace(model, x), x[n : n + 1], baseline[n], target)
        assert torch.equal(alone.attributions[0], found.attributions[n])
    assert found.targets.tolist() == targets
    same = ss.integrated_gradients(model, x, baseline, torch.tensor(targets))
    assert torch.equal(same.attributions, found.attributions)


def test_an_input_that_is_its_baseline_has_no_attribution() -> None:
    model = cases.mlp(3, 6, 1)
    x = torch.stack([torch.zeros(3), torch.ones(3)])
    found = ss.integrated_gradients(model, x)
    assert not found.attributions[0].any()
    assert found.attributions[1].any()
    assert np.abs(found.gaps).max() < 1e-13
    assert not len(ss.integrated_gradients(ss.trace(model, x), x[:0]).values)


def test_outputs_with_several_axes_take_tuples_and_endings_are_left_out() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 3, 2)).double()
    x = torch.randn(2, 1, 5, 5, dtype=torch.float64)
    found = ss.integrated_gradients(model, x, target=(2, 1, 0))
    assert found.targets.tolist() == [10, 10]
    np.testing.assert_allclose(found.values, model(x)[:, 2, 1, 0].detach().numpy(), rtol=1e-12)
    several = ss.integrated_gradients(model, x, target=[(2, 1, 0), (0, 0, 0)])
    assert several.targets.tolist() == [10, 0]
    soft = ss.integrated_gradients(nn.Sequential(cases.mlp(2, 6, 3), nn.Softmax(1)), torch.ones(1, 2), target=0)
    assert soft.ending == "softmax"
    assert "before the softmax" in soft.summary()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "target must say which of the 3 outputs"),
        ({"target": 3}, r"target must be an index in \[0, 3\), got 3"),
        ({"target": [0]}, "one for each of the 2, got 1"),
        ({"target": 0, "baseline": np.zeros(5)}, "baseline must be one number"),
        ({"target": 0, "x": torch.zeros(4)}, "batch axis is missing"),
        ({"target": 0, "x": torch.full((1, 4), torch.inf)}, "x must be finite"),
        ({"target": 0, "model": "net.onnx"}, "model must be"),
    ],
)
def test_bad_arguments_are_refused(given: dict, message: str) -> None:
    arguments = {"model": cases.mlp(4, 6, 3), "x": torch.ones(2, 4), **given}
    if isinstance(arguments["x"], Tensor) and not isinstance(arguments["model"], str):
        arguments["model"] = ss.trace(arguments["model"], torch.zeros(1, 4))
    with pytest.raises(ss.InputError, match=message):
        ss.integrated_gradients(**arguments)


@real.needs_real_networks
def test_a_resnet_adds_up_near_an_image() -> None:
    model, (images, labels) = real.resnet20(), real.cifar_images()
    generator = torch.Generator().manual_seed(0)
    near = images[:1] + 2e-4 * torch.randn(images[:1].shape, generator=generator)
    found = ss.integrated_gradients(model, images[:1], near, int(labels[0]))
    assert found.pieces[0] > 20
    assert np.abs(found.gaps).max() < 1e-11
    assert abs(found.values - found.baseline_values)[0] > 1e-6

"""Norms that place their folds by other criteria: each against the definition of its criterion, and as a batch norm."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.normalization import with_statistics
from splinescope_research import placing, with_placed_norms
from splinescope_research.normalization.placed_norms import CRITERIA, PlacedNorm1d, PlacedNorm2d, boundary_weights


@pytest.fixture(scope="module")
def values() -> torch.Tensor:
    z = torch.randn(41, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return z.exp() * torch.tensor([1.0, 10.0, 0.1, 1.0, 3.0], dtype=torch.float64)  # skewed: mean, median apart


def placed(criterion: str, channels: int = 5, **options) -> PlacedNorm1d:
    return PlacedNorm1d(channels, criterion=criterion, dtype=torch.float64, **options)


def convnet() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 6))
    return net.extend([nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)])


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("shape", [(9, 4), (9, 4, 3), (6, 4, 3, 2)])
def test_placed_by_the_mean_it_is_batch_norm(shape, momentum):
    kinds = (nn.BatchNorm2d, PlacedNorm2d) if len(shape) == 4 else (nn.BatchNorm1d, PlacedNorm1d)
    plain = kinds[0](4, momentum=momentum, dtype=torch.float64)
    own = kinds[1](4, momentum=momentum, dtype=torch.float64, criterion="mean")
    nn.init.normal_(plain.weight)
    nn.init.normal_(plain.bias)
    own.load_state_dict(plain.state_dict())
    for _ in range(3):
        x = torch.randn(shape, dtype=torch.float64) + 2
        torch.testing.assert_close(own(x), plain(x))
    for key, value in plain.state_dict().items():
        torch.testing.assert_close(own.state_dict()[key], value)
    torch.testing.assert_close(own.eval()(x), plain.eval()(x))


def test_without_running_statistics_it_goes_by_the_batch_in_evaluation_too(values):
    plain = nn.BatchNorm1d(5, track_running_stats=False, dtype=torch.float64).eval()
    own = placed("mean", track_running_stats=False).eval()
    torch.testing.assert_close(own(values), plain(values))
    own.frozen = True
    with pytest.raises(ss.InputError, match="needs running statistics"):
        own(values)


def test_the_median_has_the_least_absolute_distance_and_not_the_least_square(values):
    center, mean = placed("median").centers(values), values.mean(0)
    absolute = lambda c: (values - c).abs().sum(0)  # noqa: E731
    for step in torch.linspace(-0.5, 0.5, 21, dtype=torch.float64):
        assert (absolute(center) <= absolute(center + step * values.std(0)) + 1e-12).all()
    assert (absolute(center) < absolute(mean)).all()


def test_quantile_folds_leave_the_shares_that_were_asked_for(values):
    center = placed("quantile").centers(values)
    below = (values < center).double().mean(0)
    np.testing.assert_allclose(below, np.linspace(0.1, 0.9, 5), atol=1 / 40 + 1e-12)  # of 41 values


def test_the_gap_is_the_widest_one_between_class_means(values):
    labels = torch.arange(41) % 4
    norm = placed("gap")
    norm.labels = labels
    for channel, center in enumerate(norm.centers(values)):
        means = np.sort([float(values[labels == c, channel].mean()) for c in range(4)])
        widest = int(np.argmax(np.diff(means)))
        assert float(center) == pytest.approx((means[widest] + means[widest + 1]) / 2, rel=1e-12)
    norm.labels = torch.zeros(41, dtype=torch.long)
    torch.testing.assert_close(norm.centers(values), values.mean(0))


def test_a_fold_goes_through_the_only_point_that_counts_and_through_the_mean_if_all_do(values):
    norm = placed("weighted")
    norm.weights = torch.zeros(41).index_fill(0, torch.tensor([7]), 2.0)
    torch.testing.assert_close(norm.centers(values), values[7])
    norm.weights = torch.ones(41)
    torch.testing.assert_close(norm.centers(values), values.mean(0))


def test_weights_are_largest_at_the_boundary():
    weights = boundary_weights(torch.tensor([[1.0, 1.0, 0.0], [3.0, 1.0, 2.0], [0.0, 5.0, 1.0]]))
    assert weights[0] == 1
    assert (weights.diff() < 0).all()


@pytest.mark.parametrize("criterion", CRITERIA)
def test_in_evaluation_it_is_plain_affine_and_survives_every_way_out(criterion, tmp_path):
    net = with_placed_norms(convnet(), criterion).train()
    x, labels = torch.randn(12, 1, 6, 6, generator=torch.Generator().manual_seed(1)), torch.arange(12) % 3
    with placing(net, y=labels, weights=torch.rand(12)):
        net(x).square().sum().backward()  # differentiable
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())
    net.eval()
    with torch.no_grad():
        want = net(x)
    plain = convnet()
    plain.load_state_dict(net.state_dict())  # as a batch norm
    torch.testing.assert_close(plain.eval()(x), want)
    folded = ss.normalization.merge_batchnorm(net)
    assert not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in folded.modules())
    torch.testing.assert_close(folded(x), want, atol=1e-5, rtol=1e-5)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of its exporter without onnxscript
        torch.onnx.export(net, (x[:1],), file, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}})
    (tmp_path / "net.onnx").write_bytes(file.getvalue())
    read = ss.load(tmp_path / "net.onnx").program().forward(x.double())
    torch.testing.assert_close(read.float(), want.detach(), atol=1e-5, rtol=1e-5)
    traced = ss.trace(net, x[:1]).program().forward(x.double())
    torch.testing.assert_close(traced.float(), want.detach(), atol=1e-5, rtol=1e-5)


def test_statistics_of_a_whole_set_are_by_its_criterion_and_frozen_they_stay():
    net = with_placed_norms(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU()), "median").double()
    x = torch.randn(31, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    made = with_statistics(net, x)
    torch.testing.assert_close(made[1].running_mean, made[0](x).quantile(0.5, dim=0).detach())
    made.train()
    made[1].frozen = True
    torch.testing.assert_close(made(x[:5]), made(x)[:5])  # rows do not see each other
    before = made[1].running_mean.clone()
    made(3 * x)
    assert torch.equal(made[1].running_mean, before)


def test_the_model_is_left_as_found_and_what_is_missing_is_said():
    model = convnet()
    made = with_placed_norms(model, "gap")
    assert type(model[1]) is nn.BatchNorm2d
    assert type(made[1]) is PlacedNorm2d
    x = torch.randn(4, 1, 6, 6)
    with pytest.raises(ss.InputError, match=r"needs y: train inside `with placing\(model, y="):
        made(x)
    for wrong in (torch.zeros(3), torch.zeros(2), torch.zeros(4, 1)):  # 2 divides the 4 rows: no reason to take it
        with placing(made, y=wrong), pytest.raises(ss.InputError, match=r"y must have one entry per row .* \(4,\)"):
            made(x)
    with placing(made, y=[0, 0, 1, 1]):
        assert made(x).shape == (4, 3)
    assert made[1].labels is None
    with pytest.raises(ss.InputError, match="criterion must be"):
        with_placed_norms(model, "mode")
    with pytest.raises(ss.InputError, match="found none"):
        with_placed_norms(nn.Linear(2, 2), "median")


@pytest.mark.parametrize("criterion", CRITERIA)
def test_halves_go_in_and_come_out_as_with_batch_norm(criterion):
    norm, z = PlacedNorm1d(4, criterion=criterion), torch.randn(64, 4)
    with placing(norm, y=torch.arange(64) % 3, weights=torch.rand(64)):
        wanted, found = norm(z), norm.bfloat16()(z.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(("kind", "shape"), [(PlacedNorm2d, (4, 3, 2, 2)), (PlacedNorm1d, (4, 3, 5))])
@pytest.mark.parametrize("training", [True, False])
def test_another_number_of_channels_is_refused_in_every_mode(kind, shape, training):
    for channels in (1, 6):  # 1 divides all values: no reason to take them
        norm = kind(channels).train(training)
        with pytest.raises(ss.InputError, match=rf"must have {channels} channels .* got 3"):
            norm(torch.randn(shape))


def test_what_requires_no_gradients_stays_so():
    model = convnet()
    model[1].weight.requires_grad_(False)
    model[5].requires_grad_(False)
    made = with_placed_norms(model, "median")
    assert {n: p.requires_grad for n, p in made.named_parameters()} == {
        n: p.requires_grad for n, p in model.named_parameters()
    }


def test_no_batch_norm_is_left_out_in_silence():
    class Named(nn.BatchNorm2d):
        pass

    class Doubled(nn.BatchNorm2d):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(input)

    class Holding(nn.BatchNorm1d):
        def __init__(self, num_features: int) -> None:
            super().__init__(num_features)
            self.register_buffer("more", torch.zeros(1))

    made = with_placed_norms(nn.Sequential(Named(3), nn.ReLU(), nn.BatchNorm2d(3)), "median")
    assert [type(made[0]), type(made[2])] == [PlacedNorm2d, PlacedNorm2d]
    for other in (Doubled(3), Holding(3), nn.BatchNorm3d(3), nn.SyncBatchNorm(3)):
        with pytest.raises(ss.InputError, match=rf"got 1, a {type(other).__name__}"):
            with_placed_norms(nn.Sequential(nn.BatchNorm2d(3), other), "median")
    shared = nn.BatchNorm1d(3)
    made = with_placed_norms(nn.Sequential(shared, nn.Linear(3, 3), shared), "median")
    assert type(made[0]) is PlacedNorm1d
    assert made[0] is made[2]

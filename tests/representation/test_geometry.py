"""Measures of a batch through depth, against direct computation; the model is left as found."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from splinescope import InputError, UnsupportedModelError, trace
from splinescope.representation import representation_geometry
from splinescope.representation.measures import measure


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def geometry_of(h: torch.Tensor):  # type: ignore[no-untyped-def]
    return measure("h", "given", h, keep_gram=True, seed=0)


def test_ranks_of_a_known_spectrum() -> None:
    h = torch.diag(torch.tensor([4.0, 2.0, 1e-3, 0.0], dtype=torch.float64))
    layer = geometry_of(h)
    assert (layer.rank(), layer.rank(1e-2)) == (3, 2)
    assert layer.stable_rank == pytest.approx((16 + 4 + 1e-6) / 16)
    p = np.array([4, 2, 1e-3]) / 6.001
    assert layer.effective_rank == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    assert geometry_of(torch.zeros(3, 2, dtype=torch.float64)).rank() == 0


def test_orthogonal_points_have_no_gap_and_right_angles() -> None:
    q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=seeded())).Q
    layer = geometry_of(3 * q)
    assert layer.orthogonality_gap == pytest.approx(0, abs=1e-14)
    assert layer.angles() == pytest.approx(90)
    assert layer.angle_counts.sum() == 15


def test_odd_point_is_found_with_its_ratio_and_angle() -> None:
    n = 12
    h = torch.zeros(n, 4, dtype=torch.float64)
    h[:, 1] = 1.0
    h[7] = torch.tensor([11.0, 0, 0, 0], dtype=torch.float64)
    odd = geometry_of(h).odd
    assert odd is not None
    assert (odd.index, odd.norm_ratio, odd.isolation) == (7, 11.0, 11.0)
    assert odd.angle == pytest.approx(90)
    assert (odd.cluster_angle, odd.cluster_spread) == pytest.approx((0, 0), abs=1e-6)


def test_odd_point_may_be_the_shortest() -> None:
    h = torch.tensor([[10.0, 0.0], [10.0, 0.1], [10.0, -0.1], [0.0, 1.0]], dtype=torch.float64)
    odd = geometry_of(h).odd
    assert odd is not None
    assert odd.index == 3
    assert odd.norm_ratio == pytest.approx(0.1, rel=1e-3)


def test_activity_and_participation_count_inputs() -> None:
    h = torch.tensor([[1.0, 0.0, 2.0], [1.0, 0.0, 0.0], [1.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
    layer = geometry_of(h)
    assert layer.active_fraction.tolist() == [1, 0, 0.25]
    assert layer.sparsity == 6 / 12
    assert layer.participation[0] == 1
    assert np.isnan(layer.participation[1])
    assert layer.participation[2] == pytest.approx(25 / (4 * 17))


def test_hooks_measure_every_leaf_and_the_output() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.head = nn.Linear(2 * 4 * 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.head(torch.relu(self.conv(x)).flatten(1)))

    x = torch.randn(5, 1, 6, 6, generator=seeded())
    net = Net()
    geometry = representation_geometry(net, x, method="hooks")
    assert [layer.name for layer in geometry] == ["input", "conv", "head", "output"]
    h = net.conv(x).flatten(1).double().detach()
    gram = geometry[1].gram
    assert gram is not None
    assert np.allclose(gram, (h @ h.T).numpy(), rtol=1e-5, atol=1e-6)  # the model runs in float32
    assert geometry[1].singular_values == pytest.approx(torch.linalg.svdvals(h).numpy(), rel=1e-5)


class Overflow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.inf


class Functional(nn.Module):
    """Non-linearities that no hook sees, a skip connection and a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)
        return h + torch.relu(self.head(h))


def test_tracing_sees_functional_non_linearities() -> None:
    model = Functional().eval()
    x = torch.randn(6, 1, 6, 6, generator=seeded())
    geometry = representation_geometry(model, x)
    assert geometry.method == "trace"
    assert [layer.d for layer in geometry] == [36, 32, 8, 8, 8]  # input, relu, pool, relu, output
    with torch.no_grad():
        twin = copy.deepcopy(model).double()
        expected = twin(x.double())
    assert geometry[-1].gram == pytest.approx((expected @ expected.T).numpy(), rel=1e-9)
    assert representation_geometry(trace(model, x), x)[-1].gram == pytest.approx(geometry[-1].gram)


def test_train_mode_is_measured_by_hooks_and_tracing_it_is_refused() -> None:
    x = torch.randn(6, 1, 6, 6, generator=seeded())
    assert representation_geometry(Functional(), x).method == "hooks"
    with pytest.raises(UnsupportedModelError, match="eval"):
        representation_geometry(Functional(), x, method="trace")


def test_what_cannot_be_traced_is_hooked() -> None:
    model = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 5), nn.ReLU()).eval()
    geometry = representation_geometry(model, torch.randn(6, 4, generator=seeded()))
    assert (geometry.method, len(geometry)) == ("hooks", 5)


def test_model_is_left_as_found() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    state = {k: v.clone() for k, v in model.state_dict().items()}
    random_state = torch.get_rng_state()
    representation_geometry(model, torch.randn(8, 4, generator=seeded()))
    assert model.training
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(random_state, torch.get_rng_state())
    assert not any(m._forward_hooks for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_data_stay_though_a_model_writes_over_its_input() -> None:
    x = torch.randn(8, 3)
    given = x.clone()
    model = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 2)).train()
    representation_geometry(model, x, method="hooks")
    assert torch.equal(x, given)


def test_summary_and_records_have_a_line_a_layer() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    geometry = representation_geometry(model, torch.randn(8, 4, generator=seeded()), keep_gram=False, method="hooks")
    assert len(geometry.summary().splitlines()) == 2 + len(geometry) == 2 + len(geometry.records())  # head and foot
    assert geometry.series("rank")[:2].tolist() == [4, 5]  # float32 noise is no rank; the bias is
    assert geometry[0].gram is None
    with pytest.raises(ValueError, match="keep_gram"):
        geometry[0].angles()


def test_series_knows_the_odd_point() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    geometry = representation_geometry(model, torch.randn(8, 4, generator=seeded()), method="hooks")
    assert geometry.series("norm_ratio").tolist() == [layer.odd.norm_ratio for layer in geometry if layer.odd]
    with pytest.raises(InputError, match="'norm_ratio'"):
        geometry.series("norms")
    pair = representation_geometry(model, torch.randn(2, 4, generator=seeded()), method="hooks")
    assert np.isnan(pair.series("angle")).all()  # two points have no odd one


@pytest.mark.parametrize(
    ("model", "batch", "message"),
    [
        (nn.Linear(3, 2), torch.randn(1, 3), "n >= 2"),
        (nn.Linear(3, 2), torch.randn(5, 4), r"shape \(5, 4\)"),
        (nn.Linear(3, 2), torch.full((5, 3), torch.nan), "input .* must be finite"),
        (nn.Linear(3, 2), torch.ones(5, 3, dtype=torch.int64), "embedding"),
        (nn.Sequential(nn.Linear(3, 2), Overflow()), torch.ones(5, 3), r"at 1 \(Overflow\) must be finite"),
    ],
)
def test_bad_models_and_batches_are_named(model: nn.Module, batch: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        representation_geometry(model, batch)


def test_traced_network_names_the_shape_it_needs() -> None:
    network = trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval(), torch.randn(2, 3))
    with pytest.raises(InputError, match=r"\(n, 3\), got \(5, 4\)"):
        representation_geometry(network, torch.randn(5, 4))


@pytest.fixture(scope="module")
def geometry():  # type: ignore[no-untyped-def]
    generator = seeded()
    network = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU())
    return representation_geometry(network, torch.randn(9, 5, generator=generator))


def test_every_drawing_is_labeled_and_on_the_given_axes(geometry) -> None:  # type: ignore[no-untyped-def]
    plt = pytest.importorskip("matplotlib.pyplot")
    from splinescope.plot import representation as plots

    drawings = [
        lambda ax: plots.plot_depth(geometry, "rank", ax),
        lambda ax: plots.plot_depth(geometry, lambda layer: layer.norms.max(), ax),
        lambda ax: plots.plot_angle_histogram(geometry[-1], ax),
        lambda ax: plots.plot_projection(geometry[-1], ax),
    ]
    for draw in drawings:
        figure, ax = plt.subplots()
        assert draw(ax) is ax
        assert ax.get_xlabel()
        figure.canvas.draw()

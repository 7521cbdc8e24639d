"""Layer by layer: the same numbers as asking each quantity alone, and correlations beyond a third number."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

import splinescope as ss
from splinescope.landscape import curvature, spectrum_summary
from splinescope_research import depth_profile
from splinescope_research.folds.depth_profile import partial_rank_correlation
from splinescope_research.loss.conditioning import condition_number


def downstream(model: nn.Module, point: Tensor, path: str) -> np.ndarray:
    """The Jacobian of the outputs by the output of a layer, at one point."""
    layer = model.get_submodule(path)
    shapes = []
    with layer.register_forward_hook(lambda module, given, out: shapes.append(out.shape)):
        model(point)

    def shifted(shift: Tensor) -> Tensor:
        with layer.register_forward_hook(lambda module, given, out: out + shift):
            return model(point)[0]

    return torch.autograd.functional.jacobian(shifted, torch.zeros(shapes[0], dtype=point.dtype)).flatten(1).numpy()


class Skipped(nn.Module):
    """A linear stem, a batch norm, and a block with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Linear(3, 6), nn.BatchNorm1d(6)
        self.inner, self.out = nn.Linear(6, 6, bias=False), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        return self.out(x + torch.relu(self.inner(x)))


def networks() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    torch.manual_seed(0)
    images = nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 4)
    )
    tokens = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Flatten(), nn.Linear(10, 4))
    skipped = Skipped()
    skipped(torch.randn(50, 3))  # running statistics of some data
    return {
        "skip and batch norm": (skipped.eval(), torch.randn(7, 3)),
        "convolutional": (images.eval(), torch.randn(6, 1, 6, 6)),
        "two places": (tokens.eval(), torch.randn(5, 2, 3)),
    }


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
@pytest.mark.parametrize("name", ["skip and batch norm", "convolutional", "two places"])
def test_every_layer_has_the_curvature_and_the_conditioning_that_it_has_alone(name: str, loss: str) -> None:
    model, x = networks()[name]
    y = torch.arange(len(x)) % 4 if loss == "cross_entropy" else torch.randn(len(x), 4)
    found = depth_profile(model, x, y, loss=loss, radius=0.3)
    wide = copy.deepcopy(model).double()
    for i, path in enumerate(found.layers):
        alone = spectrum_summary(curvature(model, x, y, loss=loss, layer=path))
        assert found.largest[i] == pytest.approx(alone.largest, rel=1e-9)
        assert found.effective_rank[i] == pytest.approx(alone.effective_rank, rel=1e-9)
        jacobians = np.stack([downstream(wide, point[None], path) for point in x.double()])
        assert found.condition[i] == pytest.approx(np.median(condition_number(jacobians)), rel=1e-6)
        squares = np.linalg.svd(jacobians, compute_uv=False) ** 2
        ranks = np.sort(squares.sum(1) ** 2 / np.maximum((squares**2).sum(1), 1e-300))  # 0 where all units are off
        assert found.map_rank[i] == pytest.approx(ranks[(len(x) - 1) // 2])  # torch's median is the lower one
    parameters = [p for p, _ in model.named_parameters() if not p.startswith("norm")]
    whole = spectrum_summary(curvature(model, x, y, loss=loss, layer=parameters))
    assert found.spectrum[0] == pytest.approx(whole.largest, rel=1e-9)
    assert found.spectrum.sum() == pytest.approx(whole.trace, rel=1e-9)
    assert found.spectral_rank == pytest.approx(whole.effective_rank, rel=1e-9)


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate", "zeros", "same"])
def test_padding_of_any_kind_is_that_of_the_layer(mode: str) -> None:
    torch.manual_seed(0)
    pads = {"padding": "same"} if mode == "same" else {"padding": (1, 2), "padding_mode": mode}
    model = nn.Sequential(nn.Conv2d(1, 3, 3, **pads), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4)).eval()
    x, y = torch.randn(5, 1, 5, 6), torch.randn(5, 4)
    model(x)
    alone = spectrum_summary(curvature(model, x, y, layer="0"))
    found = depth_profile(model, x, y, radius=0.3)
    assert found.largest[0] == pytest.approx(alone.largest, rel=1e-9)
    assert found.effective_rank[0] == pytest.approx(alone.effective_rank, rel=1e-9)


def test_activations_in_place_change_nothing() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 3), torch.randn(7, 4)
    written = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 6), nn.ReLU(inplace=True), nn.Linear(6, 4)).eval()
    plain = nn.Sequential(nn.ReLU(), written[1], nn.ReLU(), written[3]).eval()
    given = x.clone()
    found, wanted = depth_profile(written, x, y, radius=0.3), depth_profile(plain, x, y, radius=0.3)
    assert torch.equal(x, given)
    for name in ("condition", "map_rank", "largest", "effective_rank", "spectrum"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, err_msg=name)


def test_folds_are_those_near_the_data_and_the_model_stays() -> None:
    model, x = networks()["skip and batch norm"]
    before = [p.requires_grad for p in model.parameters()], model.stem.weight.dtype
    found = depth_profile(model, x, torch.zeros(7, 4), radius=0.5)
    near = ss.local_complexity(model.double(), x.double(), radius=0.5)
    np.testing.assert_allclose(found.folds, near.counts.double().mean(0) / 6)
    model.float()
    assert before == ([p.requires_grad for p in model.parameters()], model.stem.weight.dtype)
    assert "stem" in found.summary()


def test_what_it_cannot_do_is_told() -> None:
    shared = nn.Linear(3, 3)
    with pytest.raises(ss.InputError, match="called once"):
        depth_profile(nn.Sequential(shared, nn.ReLU(), shared).eval(), torch.randn(4, 3), torch.zeros(4, 3))
    grouped = nn.Sequential(nn.Conv2d(2, 2, 1, groups=2), nn.ReLU(), nn.Flatten()).eval()
    with pytest.raises(ss.InputError, match="without groups"):
        depth_profile(grouped, torch.randn(2, 2, 1, 1), torch.zeros(2, 2))
    with pytest.raises(ss.InputError, match="found none"):
        depth_profile(nn.Sequential(nn.ReLU()).eval(), torch.randn(2, 2), torch.zeros(2, 2))
    with pytest.raises(ss.InputError, match="at least 3"):
        partial_rank_correlation([1, 2], [1, 2], [1, 2])


def test_partial_correlations_are_those_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    given = rng.normal(size=40)
    a, b = given + rng.normal(size=40), np.exp(given) + rng.normal(size=40)
    r_ab, r_ag, r_bg = (spearmanr(*pair)[0] for pair in ((a, b), (a, given), (b, given)))
    expected = (r_ab - r_ag * r_bg) / np.sqrt((1 - r_ag**2) * (1 - r_bg**2))
    assert partial_rank_correlation(a, b, given) == pytest.approx(expected, abs=1e-12)
    assert partial_rank_correlation(a, b, np.zeros(40)) == pytest.approx(r_ab, abs=1e-12)
    assert partial_rank_correlation(a, a**3, given) == pytest.approx(1)
    assert partial_rank_correlation(given**3, b, given) == 0  # depth tells it completely: nothing is left

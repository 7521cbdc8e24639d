"""The switches are torch's own operations; random networks are reproducible and leave the global stream alone."""

import itertools

import pytest
import torch
from torch import nn

from splinescope import InputError
from splinescope_research import random_network
from splinescope_research.random_layers.layers import BatchStandardize, NormalizedLayer


@pytest.fixture
def batch() -> torch.Tensor:
    return 3 + 2 * torch.randn(32, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_recentering_with_rescaling_is_torch_batch_norm(batch: torch.Tensor) -> None:
    ours, theirs = BatchStandardize(5).double(), nn.BatchNorm1d(5, affine=False).double()
    for step in range(3):  # running statistics must follow too
        assert torch.allclose(ours(batch + step), theirs(batch + step), rtol=0, atol=1e-12)
    assert torch.allclose(ours.eval()(batch), theirs.eval()(batch), rtol=0, atol=1e-12)


@pytest.mark.parametrize("spread", ["std", "rms"])
@pytest.mark.parametrize("components", [c for k in range(4) for c in itertools.combinations(("rc", "rs", "nl"), k)])
def test_every_switch_is_its_formula(batch: torch.Tensor, components: tuple[str, ...], spread: str) -> None:
    layer = NormalizedLayer(5, 7, components=components, spread=spread, eps=0.0).double()  # type: ignore[arg-type]
    z = batch @ layer.linear.weight.T
    expected = z - z.mean(dim=0) if "rc" in components else z
    if "rs" in components:
        centered = spread == "std" or "rc" in components
        expected = expected / (z.std(dim=0, correction=0) if centered else z.square().mean(dim=0).sqrt())
    if "nl" in components:
        expected = expected.clamp(min=0)
    assert torch.allclose(layer(batch), expected, rtol=0, atol=1e-12)


def test_same_generator_same_network_and_global_stream_untouched() -> None:
    before = torch.get_rng_state()
    first = random_network(2, 6, init="default", bias=True, generator=_seeded())
    second = random_network(2, 6, init="default", bias=True, generator=_seeded())
    assert torch.equal(before, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(("init", "variance"), [("he", 2.0), ("lecun", 1.0), ("default", 1 / 3)])
def test_initializations_have_their_variance(init: str, variance: float) -> None:
    weight = random_network(1, 400, init=init, generator=_seeded())[0].linear.weight  # type: ignore[arg-type]
    assert weight.var().item() * 400 == pytest.approx(variance, rel=0.02)  # 160,000 entries: sd of the estimate .4%


def test_bad_arguments_are_named(batch: torch.Tensor) -> None:
    with pytest.raises(InputError, match="'rc', 'rs', 'nl'"):
        NormalizedLayer(2, 2, components=("bn",))
    with pytest.raises(InputError, match="depth must be a whole number"):
        random_network(0, 3)
    for wrong in (0, -1, 2.5):
        with pytest.raises(InputError, match="in_features"):
            random_network(2, 3, in_features=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="eps"):
        BatchStandardize(4, eps=-1.0)
    with pytest.raises(InputError, match=r"shape \(\.\.\., 4\)"):
        BatchStandardize(4)(batch)
    with pytest.raises(InputError, match="at least 2 rows"):
        BatchStandardize(5)(batch[:1])


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)

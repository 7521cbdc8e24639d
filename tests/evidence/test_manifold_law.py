"""What the record says of published networks, and chains of the uniform law where it is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from splinescope.evidence import Verdict
from splinescope.evidence._uniform import uniform_law, uniform_walks
from splinescope.evidence.survey_manifold_law import (
    BOUND,
    CURVES,
    NEAR,
    PUBLISHED,
    Curves,
    _of_one,
    _of_published,
    _of_uniform,
    _published,
    _uniform_of_one,
    _uniform_published,
)
from splinescope.generative import PolaritySampler, TruncatedGaussian


def test_networks_whose_files_are_missing_are_named_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(tmp_path))
    claims = _of_published(_published(0, None)) + _of_uniform(_uniform_published(0, None))
    assert len(claims) == 2 * len(PUBLISHED)
    for name, claim in zip([*PUBLISHED, *PUBLISHED], claims, strict=True):
        assert name in claim.text
        assert claim.verdict is Verdict.INCONCLUSIVE
        assert claim.measured.startswith("not measured")


@pytest.mark.parametrize(
    ("p", "low", "verdict"),
    [(0.04, 0.1, Verdict.INCONCLUSIVE), (0.01, 0.1, Verdict.FAILS), (0.01, -0.1, Verdict.INCONCLUSIVE)],
)
def test_three_published_networks_share_the_chance_of_a_false_refusal(p: float, low: float, verdict: Verdict) -> None:
    """A p value between a third of 5% and 5% neither confirms nor refutes."""
    found = {"rho": 0.2, "low": low, "high": 0.3, "model": p, "uniform": 0.5, "distance": 1.0, "scale": 2.0}
    assert _of_one("MLP VAE", None, found).verdict is verdict


SURE = {"volume": 1.0, "inside": 90.0, "effective": 150.0, "apart": 1.0, "kept": 0.9, "model": 0.001}


@pytest.mark.parametrize(
    ("told", "verdict"),
    [
        ({"uniform": 0.2, "distribution": 0.2}, Verdict.HOLDS),
        ({"uniform": 0.2, "distribution": 0.2, "model": 0.3}, Verdict.INCONCLUSIVE),
        ({"uniform": 0.2, "distribution": 0.01}, Verdict.INCONCLUSIVE),
        ({"uniform": 0.001, "distribution": 0.001}, Verdict.FAILS),
        ({"uniform": 0.001, "distribution": 0.03}, Verdict.INCONCLUSIVE),
        ({"uniform": 0.001, "distribution": 0.001, "effective": 90.0}, Verdict.INCONCLUSIVE),
        ({"uniform": 0.001, "distribution": 0.001, "inside": 40.0}, Verdict.INCONCLUSIVE),
        ({"uniform": 0.001, "distribution": 0.001, "apart": 4.0}, Verdict.INCONCLUSIVE),
    ],
)
def test_evenness_is_told_only_where_the_uniform_law_is_known(told: dict[str, float], verdict: Verdict) -> None:
    assert _uniform_of_one("MLP VAE", SURE | told).verdict is verdict


def test_of_a_network_without_volume_it_is_said_that_there_is_no_uniform_law() -> None:
    claim = _uniform_of_one("MLP GAN", {"volume": 0.0, "ranks": [10, 60], "latent": 64})
    assert claim.verdict is Verdict.INCONCLUSIVE
    assert claim.measured == "there is no such law: the rank is 10 to 60 of 64 latents, so the volume 0"


def test_chains_find_the_uniform_law_where_a_pool_of_the_model_does_not() -> None:
    """In 20 latents: shares beyond the bends are known, a weighted pool of 3,000 is worth a handful of draws, and data
    nearly uniform are told from uniform ones."""
    curves, domain = Curves(0).eval(), TruncatedGaussian(CURVES, BOUND)
    walks = uniform_walks(curves, domain, 60, 0)
    assert float(walks.abs().max()) <= BOUND
    beyond = 10**0.5 * (BOUND - curves.bends.detach())
    truth = beyond / (beyond + curves.bends.detach() + BOUND)
    shares = (walks > curves.bends.detach()).double().mean((0, 1))
    assert float((shares - truth).abs().max()) < 0.12  # four standard errors of 150 draws
    assert abs(float((shares - truth).mean())) < 0.03
    assert PolaritySampler(curves, domain, pool=3000, progress=False).effective_size() < 10
    rng = torch.Generator().manual_seed(1)
    found = {}
    for rho in (1.0, NEAR, 0.0):
        with torch.no_grad():
            x = curves(curves.draw(rho, 100, rng))
        found[rho] = uniform_law(curves, x, domain, walks)
    assert min(found[1.0]["uniform"], found[1.0]["distribution"]) > 0.05
    assert max(found[NEAR]["uniform"], found[NEAR]["distribution"]) < 0.05 / 3
    assert max(found[0.0]["uniform"], found[0.0]["distribution"]) < 0.05 / 3
    assert found[0.0]["model"] > 0.05 > found[1.0]["model"]
    assert found[1.0]["apart"] < 3
    assert found[1.0]["effective"] > 100


def test_data_outside_the_domain_are_left_out_and_none_tells_nothing() -> None:
    curves, domain = Curves(1).eval(), TruncatedGaussian(CURVES, BOUND)
    walks = uniform_walks(curves, domain, 8, 0)
    with torch.no_grad():
        z = curves.draw(1.0, 30, torch.Generator().manual_seed(2))
        z[:10] *= 2 * BOUND / z[:10].abs().amax(1, keepdim=True)
        some = uniform_law(curves, curves(z), domain, walks, pool=100, reference=20, draws=100)
        none = uniform_law(curves, curves(z[:10]), domain, walks, pool=100, reference=20, draws=100)
    assert some["inside"] == 20
    assert none["inside"] == 0
    assert none["uniform"] != none["uniform"]
    claim = _uniform_of_one("MLP VAE", none | {"volume": 1.0})
    assert claim.verdict is Verdict.INCONCLUSIVE

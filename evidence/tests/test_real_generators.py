"""Generators that other people trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from splinescope.generative import log_volume
from splinescope_evidence.shared.generative import ConvDecoder, LabeledGenerator, real_generators


@pytest.fixture
def generators(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, LabeledGenerator]:
    monkeypatch.setenv("SPLINESCOPE_TEST_DATA", str(real_data))
    return {g.name: g for g in real_generators()}


def test_the_gan_favors_ones_as_its_source_says(generators: dict[str, LabeledGenerator]) -> None:
    gan = generators["MLP GAN"]
    z = torch.randn(2000, 64, generator=torch.Generator().manual_seed(0))
    shares = torch.bincount(gan.labeler(gan.generator(z).detach()).argmax(1), minlength=10) / len(z)
    assert abs(float(shares[1]) - 0.333) < 0.04  # four standard errors of 2000 draws
    assert abs(float(shares[2]) - 0.02) < 0.015


def test_volumes_of_published_generators_are_those_of_their_jacobians(generators: dict[str, LabeledGenerator]) -> None:
    for subject in generators.values():
        generator = subject.generator.double()
        z = torch.randn(2, subject.latent, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        jacobians = torch.stack([torch.func.jacfwd(lambda x, g=generator: g(x[None]).flatten())(row) for row in z])
        expected = torch.linalg.svdvals(jacobians.detach())
        found = log_volume(generator, z)
        assert torch.allclose(found.singular_values, expected, rtol=1e-9, atol=1e-12 * float(expected.max()))
        assert torch.equal(found.rank == subject.latent, found.log.isfinite())


def test_the_face_decoder_has_full_rank(real_data: Path) -> None:
    decoder = ConvDecoder(channels=3, side=64).eval()
    state = torch.load(real_data / "disentangling_vae" / "VAE_celeba.pt", map_location="cpu", weights_only=True)
    decoder.load_state_dict({key[8:]: value for key, value in state.items() if key.startswith("decoder.")})
    found = log_volume(decoder, torch.randn(4, 10, generator=torch.Generator().manual_seed(0)))
    assert (found.rank == 10).all()
    assert found.log.isfinite().all()

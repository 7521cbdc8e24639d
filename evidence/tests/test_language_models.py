"""The small GPT of the evidence: its texts are there, and it does not look ahead."""

from __future__ import annotations

import numpy as np
import torch

from splinescope_evidence.shared.char_gpt import CharGPT, code, pieces, prose
from splinescope_evidence.survey.claims.language_models import _phases


def test_texts_ship_with_python():
    for ids in (prose(), code()):
        assert len(ids) > 200_000
        assert 0 <= int(ids.min()) <= int(ids.max()) < 128
    some = pieces(prose(), 3, 20, torch.Generator().manual_seed(0))
    assert some.shape == (3, 20)


def test_the_model_sees_no_later_character():
    torch.manual_seed(0)
    model = CharGPT(16, 2, 2, 12, torch.nn.GELU).eval()
    ids = torch.randint(0, 128, (1, 12))
    changed = ids.clone()
    changed[0, 7:] = 5
    assert torch.allclose(model(ids)[0, :7], model(changed)[0, :7], atol=1e-6)


def test_an_ascent_is_seen_though_a_deeper_descent_follows():
    fall, rise, at = _phases(np.array([10.0, 8.0, 6.0, 9.0, 5.0, 4.0]))
    assert (fall, rise, at) == (0.6, 1.5, 2)
    fall, rise, _ = _phases(np.array([10.0, 9.5, 12.0, 11.0]))  # never below .9 of the start
    assert fall > 0.9
    fall, rise, at = _phases(np.array([10.0, 7.0, 5.0]))
    assert (rise, at) == (1.0, 1)

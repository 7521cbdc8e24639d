"""The small GPT of the evidence: its texts are there, and it does not look ahead."""

from __future__ import annotations

import torch

from splinescope.evidence._char_gpt import CharGPT, code, pieces, prose


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

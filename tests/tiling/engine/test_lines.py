"""Many lines in one pass: what each gives by itself, and what the engine of all dimensions gives."""

import pytest
import torch

import splinescope as ss
from splinescope.tiling.engine import lines
from tests import cases
from tests.tiling.same import assert_same

ALL = 10**9  # a limit that is not met: the engine of all dimensions tiles, which knows limits


def _lines(name: str, count: int) -> list[ss.Slice]:
    random = torch.Generator().manual_seed(3)
    ends = 2.0 * torch.randn(2 * count, *cases.view(name).input_shape, generator=random, dtype=torch.float64)
    return [ss.Slice.segment(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True)]


@pytest.mark.parametrize("name", cases.CASES)
def test_lines_together_are_bit_for_bit_those_of_the_engine_of_all_dimensions(name: str) -> None:
    network = ss.trace(cases.model(name), torch.zeros(2, *cases.view(name).input_shape, dtype=torch.float64))
    views = _lines(name, 5)
    for view, tiling in zip(views, ss.tiling.tessellate_each(network, views), strict=True):
        assert_same(tiling, ss.tessellate(network, view, max_tiles=ALL))


def test_no_bit_depends_on_how_lines_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    network = ss.trace(cases.mlp(2, 30, 30, 2).double(), torch.zeros(2, 2, dtype=torch.float64))
    views = _lines("two layers", 7)
    whole = ss.tiling.tessellate_each(network, views)
    monkeypatch.setattr(lines, "_TOGETHER_BYTES", 1 << 15)
    monkeypatch.setattr(lines, "_BENDS_EACH", 1)
    monkeypatch.setattr(lines, "_LONG_TIMES", 1 << 10)
    for chunk_bytes in (1 << 13, 1 << 20):
        for split, tiling in zip(
            ss.tiling.tessellate_each(network, views, chunk_bytes=chunk_bytes), whole, strict=True
        ):
            assert_same(split, tiling)

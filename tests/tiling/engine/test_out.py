"""A tiling written while it is made is the tiling in memory; an interrupted one leaves nothing."""

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

import splinescope as ss
from splinescope.tiling.engine import assemble, chunk
from tests import cases
from tests.tiling.same import assert_same

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


@pytest.fixture(scope="module")
def network() -> ss.SplineNetwork:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 2))
    return ss.trace(model, torch.zeros(2, 2))


@pytest.mark.parametrize("rows", ["plain", "factored"])
@pytest.mark.parametrize("name", ["two layers", "line", "max-pool", "zero bias"])
def test_it_is_the_tiling_in_memory_bit_for_bit(
    name: str, rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a max-pool's, whose walls between losers are taken out at the end; the table of vertices grows."""
    monkeypatch.setattr(assemble, "_FIRST_TABLE", 16)
    out = tmp_path / "big.tiling"
    options = {"chunk_bytes": 1 << 12, "threads": 1, "rows": rows}
    mapped = ss.tessellate(cases.model(name), cases.view(name), out=out, **options)
    assert_same(ss.tessellate(cases.model(name), cases.view(name), **options), mapped)
    assert [path.name for path in tmp_path.iterdir()] == ["big.tiling"]
    assert_same(mapped, ss.load_tiling(out))


@pytest.mark.parametrize("kind", [nn.ReLU, lambda: nn.MaxPool1d(2)])
def test_solids_are_the_same_on_disk_and_in_memory(
    kind: Callable[[], nn.Module], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In four dimensions, in leaves that wait in pages of their own with narrow masks, or in a file."""
    monkeypatch.setattr(assemble, "_FIRST_TABLE", 16)
    monkeypatch.setattr(chunk, "_PAGES", 1)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Unflatten(1, (1, 8)), kind(), nn.Flatten(), nn.LazyLinear(6), nn.ReLU(),
                        nn.Linear(6, 2))  # fmt: skip
    net(torch.zeros(2, 4))
    view = ss.Slice.axes(torch.zeros(4), (0, 1, 2, 3), -2.0, 2.0)
    options = {"chunk_bytes": 1 << 12, "threads": 1}
    memory = ss.tessellate(net, view, **options)
    mapped = ss.tessellate(net, view, out=tmp_path / "big.tiling", **options)
    assert_same(memory, mapped)
    for name in ("facet_bits", "facet_offsets"):
        np.testing.assert_array_equal(getattr(memory.tiles, name), getattr(mapped.tiles, name))
    assert memory.tiles.facet_bits.dtype == np.uint64
    assert memory.check().ok
    whole = ss.tessellate(net, view)  # in one chunk
    np.testing.assert_allclose(np.sort(memory.areas), np.sort(whole.areas), rtol=1e-9, atol=1e-12)


def test_results_of_many_parts_are_mapped_and_any_reader_of_safetensors_has_them(
    network: ss.SplineNetwork, tmp_path: Path
) -> None:
    out = tmp_path / "big.tiling"
    memory = ss.tessellate(network, SQUARE, chunk_bytes=1 << 12)
    mapped = ss.tessellate(network, SQUARE, chunk_bytes=1 << 12, out=out)
    assert mapped.count > 1000
    assert_same(memory, mapped)
    assert not mapped.vertices.flags.owndata
    np.testing.assert_array_equal(load_file(out)["tile_corners"], memory.tiles.corners)
    assert str(mapped.summary()) == str(memory.summary())
    assert mapped.check().ok


def test_a_tiling_within_a_tolerance_is_written_too(tmp_path: Path) -> None:
    smooth = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    near = ss.tessellate(smooth, SQUARE, tolerance=0.1, out=tmp_path / "near.tiling")
    assert near.tolerance == 0.1
    assert ss.load_tiling(tmp_path / "near.tiling").count == near.count


def stop(share: float, now: str) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_run_leaves_what_was_there_before(network: ss.SplineNetwork, tmp_path: Path) -> None:
    out = tmp_path / "big.tiling"
    with pytest.raises(KeyboardInterrupt):
        ss.tessellate(network, SQUARE, chunk_bytes=1 << 12, threads=1, out=out, progress=stop)
    assert list(tmp_path.iterdir()) == []
    out.write_bytes(b"before")
    with pytest.raises(KeyboardInterrupt):
        ss.tessellate(network, SQUARE, chunk_bytes=1 << 12, threads=2, out=out, progress=stop)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


def test_a_limit_gives_what_was_found_and_writes_no_file(network: ss.SplineNetwork, tmp_path: Path) -> None:
    with pytest.raises(ss.LimitReached) as reached:
        ss.tessellate(network, SQUARE, chunk_bytes=1 << 12, threads=1, max_tiles=1000, out=tmp_path / "big.tiling")
    assert list(tmp_path.iterdir()) == []
    partial = reached.value.partial
    assert 0 < partial.count <= 1000
    assert (partial.areas > 0).all()


def test_a_full_disk_is_told_and_nothing_is_left(network: ss.SplineNetwork, tmp_path: Path) -> None:
    ss.tessellate(network, SQUARE)  # compiled kernels are on the disk before it is full
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ss.SplinescopeError, match=r"big\.tiling was not written"):
            ss.tessellate(network, SQUARE, chunk_bytes=1 << 12, out=tmp_path / "big.tiling")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused_before_the_work(network: ss.SplineNetwork, tmp_path: Path) -> None:
    with pytest.raises(ss.InputError, match="does not exist"):
        ss.tessellate(network, SQUARE, out=tmp_path / "nowhere" / "big.tiling")

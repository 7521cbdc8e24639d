"""`Tiling.check` sees what is wrong with a tiling, and only that; it speaks of the network as it was tiled."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.tiling.cells.polygons import Cells
from splinescope.tiling.measures import differentiate, points_together

from ... import cases


@pytest.fixture(scope="module")
def tiling() -> ss.Tiling:
    return ss.tessellate(cases.model("two layers"), cases.Square)


@pytest.fixture(params=["tile by tile", "tiles together"], autouse=True)
def way(request, monkeypatch):
    """Every test meets both ways of evaluating the network; the second one is for wide networks."""
    if request.param == "tiles together":
        monkeypatch.setattr(points_together, "_WIDE", -1)
        monkeypatch.setattr(points_together, "_ON_LINES", 7)


def cut_in_two(tiling: ss.Tiling) -> ss.Tiling:
    """The tiling with one tile cut along a diagonal on which there is no fold: all but the patterns stays right."""
    tile = int(np.flatnonzero(tiling.sides >= 4)[0])
    offsets, at = tiling.tiles.offsets, tiling.tiles.offsets[tile]
    ids, labels = tiling.tiles[tile], tiling.corner_labels[at : offsets[tile + 1]]
    halves = np.concatenate([ids[:3], ids[2:], ids[:1]]).astype(np.int32)
    made = np.concatenate([labels[:2], [0], labels[2:], [0]]).astype(np.int32)
    corners = np.concatenate([tiling.tiles.corners[:at], halves, tiling.tiles.corners[offsets[tile + 1] :]])
    corner_labels = np.concatenate([tiling.corner_labels[:at], made, tiling.corner_labels[offsets[tile + 1] :]])
    new = np.concatenate([offsets[: tile + 1], [at + 3], offsets[tile + 1 :] + 2])
    return replace(tiling, tiles=Cells(new, corners), corner_labels=corner_labels)


def test_a_right_tiling_passes_every_check(tiling):
    report = tiling.check()
    assert report.ok
    assert (len(report.passed), report.failed, report.skipped) == (6, (), ())


def test_a_tile_that_is_cut_without_a_fold_repeats_a_pattern(tiling):
    report = cut_in_two(tiling).check()
    assert report.failed == ("activation patterns differ between tiles: 1 tiles repeat another's pattern.",)


def test_a_moved_vertex_bends_the_map(tiling):
    vertices = tiling.vertices.copy()
    vertices[10] += 0.3
    assert "affine" in " ".join(replace(tiling, vertices=vertices).check().failed)
    without = replace(tiling, vertices=vertices, frozen=None, network=None).check()
    assert "affine" in " ".join(without.failed)


def test_a_wrong_output_bends_the_map(tiling):
    values = tiling.values.copy()
    values[7, 2] += 1e-6 * np.abs(values).max()
    for broken in (replace(tiling, values=values), replace(tiling, values=values, frozen=None, network=None)):
        assert "affine" in " ".join(broken.check().failed)


def test_tiles_that_do_not_fill_the_domain_are_reported(tiling):
    view = tiling.view
    larger = ss.Slice(view.origin, view.basis, 1.001 * view.domain)
    assert ["areas sum" in sentence for sentence in replace(tiling, view=larger).check().failed] == [True]


def test_a_boundary_taken_for_a_fold_is_reported(tiling):
    labels = tiling.corner_labels.copy()
    labels[tiling.corner_labels == -1] = 0
    assert "boundary" in " ".join(replace(tiling, corner_labels=labels).check().failed)


def test_a_tiling_speaks_of_the_network_that_was_tiled_whatever_becomes_of_the_model():
    net = cases.model("image output")  # 100 outputs: none are stored, all come from the network
    tiling = ss.tessellate(net, cases.Square)
    before = tiling.input_slope_norms([0, 1]), tiling.slopes(), tiling.active_units(), tiling.outputs([[0.1, 0.2]])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(-1.7)
    assert tiling.check().ok
    after = tiling.input_slope_norms([0, 1]), tiling.slopes(), tiling.active_units(), tiling.outputs([[0.1, 0.2]])
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert tiling.fingerprint != tiling.network.fingerprint()


@pytest.mark.parametrize("name", cases.CASES)
def test_every_case_passes(name):
    report = cases.tiling(name).check()
    assert report.ok, str(report)


def test_codes_tell_patterns_apart_in_every_bit():
    width = 130  # two words and a bit
    patterns = np.concatenate([np.zeros((1, width), bool), np.eye(width, dtype=bool), ~np.eye(width, dtype=bool)])
    patterns = np.concatenate([patterns, np.roll(patterns, 64, 1) | patterns])
    codes = differentiate._hashed(differentiate._packed(patterns), 0).sum(1, dtype=np.uint64)
    assert len(np.unique(codes)) == len(np.unique(patterns, axis=0))
    shifted = differentiate._hashed(differentiate._packed(patterns), 3).sum(1, dtype=np.uint64)
    assert not np.isin(shifted, codes).any()  # the same word at another place is another pattern


@pytest.mark.parametrize("seed", range(2))
def test_an_output_that_is_rounding_noise_everywhere_raises_no_alarm(seed):
    """Two equal halves of a network cancel in its output: what is left is as large as the roundings of its terms."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(2, 14), torch.nn.ReLU(), torch.nn.Linear(14, 14), torch.nn.ReLU(),
                              torch.nn.Linear(14, 1)).double().eval()  # fmt: skip
    with torch.no_grad():
        for layer in (net[0], net[2]):
            layer.weight[7:], layer.bias[7:] = layer.weight[:7], layer.bias[:7]
        net[4].weight[:, 7:], net[4].bias[:] = -net[4].weight[:, :7], 0
    tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2))
    values = tiling.values
    if not np.abs(values).max() > 0:  # how sums are rounded is the processor's choice
        values = np.random.default_rng(seed).normal(size=values.shape) * 1e-17
    assert 0 < np.abs(values).max() < 1e-14
    assert replace(tiling, values=values).check().ok
    wrong = replace(tiling, values=values + np.where(np.arange(len(values)) % 3 == 0, 1e-6, 0)[:, None])
    assert "affine" in " ".join(wrong.check().failed)  # small beside the terms, but no rounding of them

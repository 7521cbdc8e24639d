"""Files of tilings and timelines, forged at random: an error each, or they can be used; never a crash.

FUZZ_TRIALS sets how many of each kind are tried.
"""

import contextlib
import dataclasses
import json
import os
from functools import partial

import numpy as np
import pytest

import splinescope as ss
from splinescope.complexity.timeline import Timeline
from splinescope.tiling.cells.polygons import Cells
from splinescope.tiling.measures.quantities import available

from .test_untrusted_files import KINDS, SQUARE, network, resealed

TRIALS = int(os.environ.get("FUZZ_TRIALS", "100"))
EXTREME = [0, 1, -1, 2, 3, 7, 10**6, 2**31 - 1, -(2**31), 2**62, -(2**63), 1e-300, 1e300, np.inf, -np.inf, np.nan]
TEXTS = [None, True, False, -1, 0, 1, 10**12, 1e400, "", "x", [], [0], {}, {"path": 0}]


@pytest.mark.parametrize("steps", [[10, 0], [5, 5]])
def test_a_timeline_runs_forward(tmp_path, steps):
    """Whoever wrote it: the file is whole, and its checksum right."""
    tiling = ss.tessellate(network(), SQUARE)
    Timeline(np.array(steps), (tiling, tiling), {}, 0.1, 0.2, "none").save(tmp_path / "story")
    with pytest.raises(ss.FileFormatError, match="steps must ascend"):
        ss.complexity.load_timeline(tmp_path / "story")


def tilings_in(result) -> tuple[ss.Tiling, ...]:
    return result.tilings if isinstance(result, Timeline) else (result,)


def change(arrays: dict[str, np.ndarray], metadata: dict[str, str], random: np.random.Generator) -> None:
    """Change one array or one field of the header of a file."""
    if random.random() < 0.3:  # of a tiling that is incomplete less can be checked
        metadata["header"] = metadata["header"].replace('"complete": true', '"complete": false')
    if random.random() < 0.3:
        header = json.loads(metadata["header"])
        place, key = random_place(header, random)
        place[key] = TEXTS[random.integers(0, len(TEXTS))]
        metadata["header"] = json.dumps(header)
    else:
        name = sorted(arrays)[random.integers(0, len(arrays))]
        array = arrays[name]
        if random.random() < 0.2:
            arrays[name] = np.ascontiguousarray(np.roll(array, 1, 0)[: random.integers(0, len(array) + 1)])
        else:
            for place in random.integers(0, max(array.size, 1), random.integers(1, 3)) if array.size else []:
                value = EXTREME[random.integers(0, len(EXTREME))] if random.random() < 0.7 else array.flat[place - 1]
                if np.issubdtype(array.dtype, np.integer):
                    ends = np.iinfo(array.dtype)
                    value = int(min(max(value, ends.min), ends.max)) if np.isfinite(value) else max(-5, ends.min)
                array.flat[place] = value


def random_place(node, random):
    """A container of the header and the key of one of its entries."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[random.integers(0, len(keys))]
        deeper = isinstance(node[key], (dict, list)) and len(node[key])
        if not deeper or random.random() < 0.2:
            return node, key
        node = node[key]


def use(tiling: ss.Tiling) -> None:
    """Everything that runs compiled code over a tiling's arrays: an answer, or an error of ours.

    Outputs whose squares are beyond float64 overflow, and numpy says so: those alone may warn.
    """
    points = tiling.view.domain.mean(0, keepdims=True)
    uses = [tiling.check, tiling.summary, tiling.counts_by_depth, tiling.dual_graph, tiling.folds_per_length]
    uses += [lambda: tiling.locate(points)]
    uses += [lambda name=name: tiling.quantity(name) for name in available(tiling)]
    if tiling.values is not None:
        uses += [lambda: tiling.decision_boundary().distances(points), tiling.slopes, tiling.pieces]
    if tiling.dimension < 3:
        uses += [lambda: tiling.counts_near(points, 0.3), lambda: tiling.tiles_near(points, 9)]
    if tiling.dimension < 3 and tiling.values is not None:
        uses += [lambda: tiling.decision_boundary().polylines]
    if tiling.dimension == 2:
        uses += [tiling.bends, lambda: tiling.fold_raster(8)]
    wild = tiling.values is not None and bool((np.abs(tiling.values) > 1e100).any())
    for measure in uses:
        with contextlib.suppress(ss.SplinescopeError, *[RuntimeWarning] * wild):
            measure()


@pytest.mark.parametrize("kind", ["tiling", "line", "solid", "timeline"])
def test_a_forged_file_is_refused_or_can_be_used(kind, tmp_path):
    read = ss.complexity.load_timeline if kind == "timeline" else ss.load_tiling
    KINDS[kind][0](tmp_path)
    path = tmp_path / kind
    content = path.read_bytes()
    random = np.random.default_rng(0)
    refused: list[str] = []
    for _ in range(TRIALS):
        path.write_bytes(resealed(content, partial(change, random=random)))
        try:
            found = tilings_in(read(path))
        except ss.FileFormatError as error:
            refused.append(str(error))
            continue
        if random.random() < 0.2:  # slower by far than reading
            for tiling in found:
                use(tiling)
    assert len(refused) > 0.3 * TRIALS
    assert not any("checksum" in reason for reason in refused), "the forgery itself is wrong"


def test_tiles_without_area_have_a_place_and_no_size():
    """Rounding may leave such tiles where folds meet: their shape is told, and nothing divides by zero."""
    vertices = np.array([[-1.0, -1], [1, -1], [1, 1], [-1, 1], [0, -1], [0, 1]])
    corners = [[0, 4, 5, 3], [4, 1, 2, 5], [4, 5, 5], [5, 5, 5]]  # two halves, a line, a point
    whole = ss.tessellate(network(), SQUARE)
    tiling = dataclasses.replace(
        whole,
        vertices=vertices,
        tiles=Cells(np.cumsum([0, 4, 4, 3, 3]), np.concatenate(corners).astype(np.int32)),
        corner_labels=np.full(14, -1, np.int32),
        values=vertices @ np.array([[1.0, 2.0], [0.5, -1.0]]),
        frozen=None,
        network=None,
    )
    assert tiling.centroids().tolist()[2:] == [[0, pytest.approx(1 / 3)], [0, 1]]
    assert tiling.inradii().tolist() == [pytest.approx(0.5), pytest.approx(0.5), 0, 0]
    assert tiling.eccentricities()[2:].tolist() == [1, 1]
    assert set(tiling.locate(np.array([[-0.5, 0.0], [0.5, 0.0], [0.0, 1.0]])).tolist()) <= {0, 1}
    assert tiling.counts_near([[0.0, 1.0]], 0.1).tolist() == [4]
    assert np.isnan(tiling.slopes([2, 3])).all()
    assert np.isfinite(tiling.slopes([0, 1])).all()


def test_tiles_that_are_turned_over_or_do_not_fill_the_domain_are_refused(tmp_path):
    tiling = ss.tessellate(network(), SQUARE)
    start, stop = tiling.tiles.offsets[:2]
    turned, missing = tiling.tiles.corners.copy(), tiling.tiles.offsets[:-1]
    turned[start:stop] = turned[start:stop][::-1]
    kept = slice(0, int(missing[-1]))
    bad = {
        "counter-clockwise": dataclasses.replace(tiling, tiles=Cells(tiling.tiles.offsets, turned)),
        "fill the slice's domain": dataclasses.replace(
            tiling, tiles=Cells(missing, tiling.tiles.corners[kept]), corner_labels=tiling.corner_labels[kept]
        ),
    }
    for words, wrong in bad.items():
        wrong.save(tmp_path / "wrong")
        with pytest.raises(ss.FileFormatError, match=words):
            ss.load_tiling(tmp_path / "wrong")
    part = dataclasses.replace(bad["fill the slice's domain"], complete=False)  # as a limit leaves it
    part.save(tmp_path / "part")
    assert ss.load_tiling(tmp_path / "part").count == tiling.count - 1

"""Tilings on disk come back as they were; anything else is refused, and nothing is left half-written."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import nn

import splinescope as ss
from splinescope.support import archive

PARTS = ("origin", "basis", "domain", "anchors")


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))


@pytest.fixture(scope="module")
def tiling(net):
    return ss.tessellate(net, ss.Slice.through([0.0, 0.0], [1.0, 0.2], [0.3, 1.0], pad=0.5))


@pytest.fixture
def saved(tiling, tmp_path):
    path = tmp_path / "net.tiling"
    tiling.save(path)
    return path


def read(path):
    with safe_open(path, framework="numpy") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, dict(file.metadata())  # noqa: SIM118


def assert_same(a, b):
    for name in ("vertices", "values", "corner_labels", "areas"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.tiles.offsets, b.tiles.offsets)
    np.testing.assert_array_equal(a.tiles.corners, b.tiles.corners)
    for name in PARTS:
        np.testing.assert_array_equal(getattr(a.view, name), getattr(b.view, name))
    for name in ("sites", "rtol", "ending", "fingerprint", "complete"):
        assert getattr(a, name) == getattr(b, name)


def test_a_tiling_comes_back_as_it_was(tiling, saved):
    loaded = ss.load_tiling(saved)
    assert_same(tiling, loaded)
    assert loaded.network is None
    assert loaded.check().ok


def test_a_partial_line_comes_back_marked_incomplete(net, tmp_path):
    with pytest.raises(ss.LimitReached) as caught:
        ss.tessellate(net, ss.Slice.segment([-2.0, 0.0], [2.0, 1.0]), max_tiles=5)
    caught.value.partial.save(tmp_path / "part.tiling")
    assert_same(caught.value.partial, ss.load_tiling(tmp_path / "part.tiling"))
    assert not caught.value.partial.complete


def test_large_outputs_are_not_stored(tmp_path):
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 65))
    tiling = ss.tessellate(net, ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
    tiling.save(tmp_path / "wide.tiling")
    assert ss.load_tiling(tmp_path / "wide.tiling").values is None


def test_the_network_is_attached_only_if_it_is_the_one(net, saved):
    assert ss.load_tiling(saved, net).check().skipped == ()
    other = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    with pytest.raises(ss.InputError, match="must be the one that was tiled"):
        ss.load_tiling(saved, other)


def test_the_file_is_readable_without_splinescope(tiling, saved):
    arrays, metadata = read(saved)
    assert metadata["format"] == "splinescope.tiling"
    corners = arrays["tile_corners"][arrays["tile_offsets"][3] : arrays["tile_offsets"][4]]
    np.testing.assert_array_equal(arrays["vertices"][corners], tiling.tile(3))


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x04pickle.", b"\xff" * 64], ids=["empty", "text", "pickle", "ff"]
)
def test_foreign_files_are_refused(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    with pytest.raises(ss.FileFormatError, match="not a tiling"):
        ss.load_tiling(path)


@pytest.mark.parametrize("read", [ss.load_tiling, ss.complexity.load_timeline, ss.load])
def test_every_reader_refuses_a_missing_file_in_the_same_words(tmp_path, read):
    for path in (tmp_path / "absent.onnx", str(tmp_path)):
        with pytest.raises(ss.InputError, match="must be an existing file, got"):
            read(path)
    with pytest.raises(ss.InputError, match="must be a file name, got int"):
        read(3)


def _replace(name, index, value):
    def change(arrays, _):
        arrays[name][index] = value

    return change


def _put(name, array):
    return lambda arrays, _: arrays.__setitem__(name, array)


def _header(**fields):
    def change(_, metadata):
        metadata["header"] = json.dumps({**json.loads(metadata["header"]), **fields})

    return change


DAMAGE = {
    "corner beyond the vertices": _replace("tile_corners", 0, 10**6),
    "negative corner": _replace("tile_corners", 0, -1),
    "label beyond the units": _replace("corner_labels", 0, 20),
    "offsets not monotone": _replace("tile_offsets", 1, 10**6),
    "offsets not from zero": _replace("tile_offsets", 0, 1),
    "offsets short of the corners": _replace("tile_offsets", -1, 3),
    "no offsets": _put("tile_offsets", np.zeros(0, np.int64)),
    "vertex NaN": _replace("vertices", 0, np.nan),
    "vertex outside the slice": _replace("vertices", 0, 1e3),
    "value infinite": _replace("values", 0, np.inf),
    "values of other length": _put("values", np.zeros((2, 3))),
    "vertices in float32": _put("vertices", np.zeros((5, 2), np.float32)),
    "vertices flat": _put("vertices", np.zeros(5)),
    "domain without a corner": lambda arrays, _: arrays.update(slice_domain=arrays["slice_domain"][:-1].copy()),
    "domain clockwise": _put("slice_domain", np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]])),
    "unknown array": _put("code", np.zeros(1)),
    "missing array": lambda arrays, _: arrays.pop("tile_corners"),
    "anchors of other width": _put("slice_anchors", np.zeros((1, 5))),
    "version": lambda _, metadata: metadata.update(version="99"),
    "header not JSON": lambda _, metadata: metadata.update(header="{"),
    "header a list": lambda _, metadata: metadata.update(header="[]"),
    "rtol a string": _header(rtol="1e-12"),
    "rtol out of range": _header(rtol=2.0),
    "sites a number": _header(sites=3),
    "site with an unknown field": _header(
        sites=[{"path": "", "op": "relu", "shape": [20], "units": 20, "depth": 1, "x": 1}]
    ),
    "site with negative units": _header(sites=[{"path": "", "op": "relu", "shape": [20], "units": -1, "depth": 1}]),
    "site deeper than there are sites": _header(
        sites=[{"path": "", "op": "relu", "shape": [20], "units": 20, "depth": 10**9}]
    ),
    "more units than labels can name": _header(
        sites=[{"path": "", "op": "relu", "shape": [20], "units": 2**31, "depth": 1}]
    ),
    "complete missing": _header(complete=None),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda name: name.replace(" ", "-"))
def test_damage_is_refused(saved, damage):
    arrays, metadata = read(saved)
    DAMAGE[damage](arrays, metadata)
    metadata["sha256"] = archive._digest(arrays, metadata["header"])  # as a forger would: not the checksum refuses it
    save_file(arrays, saved, metadata)
    with pytest.raises(ss.FileFormatError) as refusal:
        ss.load_tiling(saved)
    assert "checksum" not in str(refusal.value)


def test_a_file_of_a_later_version_is_not_called_damaged(saved):
    arrays, metadata = read(saved)
    save_file(arrays, saved, {**metadata, "version": "99"})
    with pytest.raises(ss.FileFormatError, match=r"has version '99'.*reads version 2"):
        ss.load_tiling(saved)


def test_a_number_changed_on_the_disk_is_noticed(saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1  # a last bit of some array: nothing but the checksum can tell
    saved.write_bytes(content)
    with pytest.raises(ss.FileFormatError, match="checksum"):
        ss.load_tiling(saved)


def test_files_are_readable_by_those_whom_the_umask_allows(tiling, tmp_path):
    (tmp_path / "plain").touch()
    tiling.save(tmp_path / "net.tiling")
    assert (tmp_path / "net.tiling").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "net.tiling").chmod(0o640)
    tiling.save(tmp_path / "net.tiling")
    assert (tmp_path / "net.tiling").stat().st_mode & 0o777 == 0o640

"""Tilings saved in version 1 of the format are read, with the meaning they had.

The files were written by the code of that version: `NETWORKS` tiled on `VIEWS`.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from torch import nn

import splinescope as ss

FILES = Path(__file__).parent / "files"


def filled(*layers: nn.Module) -> nn.Module:
    """Parameters by a formula, so that no generator of random numbers has to stay as it was."""
    net, start = nn.Sequential(*layers), 1
    with torch.no_grad():
        for p in net.parameters():
            numbers = torch.arange(start, start + p.numel(), dtype=torch.float64)
            p.copy_(torch.sin(numbers**2).reshape(p.shape))
            start += p.numel()
    return net


def plain() -> nn.Module:
    return filled(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))


def pooled() -> nn.Module:
    """Two windows of nine competitors: four stages of 4, 2, 1 and 1 pairs."""
    return filled(
        nn.Conv2d(1, 2, 2, padding=1), nn.MaxPool2d(3), nn.Flatten(), nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)
    )


IMAGES = (np.zeros((1, 2, 2)), np.array([[[1.0, 0.0], [0.5, 0.0]]]), np.array([[[0.0, 1.0], [0.0, -0.5]]]))
NETWORKS = {"relu": plain, "line": plain, "max-pool": pooled}
VIEWS = {
    "relu": ss.Slice.axes([0.0, 0.0], (0, 1), -2.0, 2.0),
    "line": ss.Slice.segment([-2.0, -1.0], [2.0, 1.5]),
    "max-pool": ss.Slice.through(*IMAGES, pad=0.5),
}


def path_of(name: str) -> Path:
    return FILES / f"version1-{name}.safetensors"


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_a_file_of_version_1_holds_the_tiling_that_is_made_today(name: str) -> None:
    old, new = ss.load_tiling(path_of(name)), ss.tessellate(NETWORKS[name](), VIEWS[name])
    assert old.count == new.count > 9
    np.testing.assert_allclose(np.sort(old.areas), np.sort(new.areas), atol=1e-12)
    for part in ("path", "op", "units", "depth", "cuts"):
        assert [getattr(site, part) for site in old.sites] == [getattr(site, part) for site in new.sites]
    np.testing.assert_array_equal(np.bincount(old.corner_labels + 1), np.bincount(new.corner_labels + 1))
    assert old.summary().as_dict() == pytest.approx(new.summary().as_dict(), rel=1e-9)
    assert old.check().ok


@pytest.mark.parametrize("name", ["relu", "line"])
def test_the_network_can_be_attached(name: str) -> None:
    assert ss.load_tiling(path_of(name), NETWORKS[name]()).check().skipped == ()


def test_what_was_read_is_saved_in_the_present_version(tmp_path: Path) -> None:
    old = ss.load_tiling(path_of("max-pool"))
    old.save(tmp_path / "new")
    new = ss.load_tiling(tmp_path / "new")
    assert new.sites == old.sites
    np.testing.assert_array_equal(new.vertices, old.vertices)


def _sites(header: dict, **fields: object) -> None:
    header["sites"][0].update(fields)


DAMAGE = {
    "a max-pool without its last stage": lambda header: header["sites"].pop(3),
    "a stage of three axes": lambda header: _sites(header, shape=[5, 2, 1]),
    "no windows": lambda header: header["sites"][3].update(shape=[1, 0]),
    "op a number": lambda header: _sites(header, op=3),
    "units a text": lambda header: _sites(header, units="8"),
    "a site with an unknown field": lambda header: header["sites"][4].update(x=1),
    "sites a number": lambda header: header.update(sites=3),
    "fewer units than labels": lambda header: header["sites"].pop(4),
    "no fingerprint": lambda header: header.pop("fingerprint"),
}


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda name: name.replace(" ", "-"))
def test_damage_to_a_file_of_version_1_is_refused(damage: str, tmp_path: Path) -> None:
    content = path_of("max-pool").read_bytes()
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    header = json.loads(metadata["tiling"])
    DAMAGE[damage](header)
    (tmp_path / "bad").write_bytes(save(load(content), {**metadata, "tiling": json.dumps(header)}))
    with pytest.raises(ss.FileFormatError):
        ss.load_tiling(tmp_path / "bad")


def test_the_present_version_cannot_pass_for_version_1_to_evade_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "net.tiling"
    ss.load_tiling(path_of("relu")).save(path)
    content = path.read_bytes()
    assert content.count(b'"version":"2"') == 1
    path.write_bytes(content.replace(b'"version":"2"', b'"version":"1"'))
    with pytest.raises(ss.FileFormatError, match="header"):
        ss.load_tiling(path)

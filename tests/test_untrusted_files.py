"""No file is trusted: a changed bit is refused in words or changes nothing, and nothing in a file is run.

FUZZ_FLIPS sets how many bits of each kind of file are flipped.
"""

import ast
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save
from torch import nn

import splinescope as ss
from splinescope.cli.landscape import _load_data
from splinescope.complexity.timeline import Timeline
from splinescope.generative import Box, PolaritySampler
from splinescope.support import archive
from splinescope.support.arrays import read_array
from splinescope.train.checkpoints import load_checkpoint, load_tensors, save_checkpoint
from splinescope.train.journal import Journal
from tests.tiling.engine.test_workers import in_this_process

FLIPS = int(os.environ.get("FUZZ_FLIPS", "6"))
SOURCE = Path(ss.__file__).parent
SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -1.0, 1.0)
CUBE = ss.Slice.axes([0.0] * 3, (0, 1, 2), -1.0, 1.0)
HEADER = {"format": "splinescope.test", "version": 3, "radius": 0.25}
RECORD = {"step": 3, "seconds": 0.5, "late": 0, "skipped": 0, "train": 1.25, "test": np.nan, "ratio": np.inf}


def network(inputs: int = 2, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 4), act(), nn.Linear(4, 2)).eval()


def arrays_of(tiling: ss.Tiling) -> tuple[Any, ...]:
    named = (tiling.vertices, tiling.tiles.offsets, tiling.tiles.corners, tiling.corner_labels, tiling.values)
    return *(array.tolist() for array in named), tiling.complete, tiling.fingerprint


def tilings(name: str, view: ss.Slice) -> tuple[Callable[[Path], Any], Callable[[Path], Any]]:
    return (
        lambda folder: ss.tessellate(network(len(view.origin)), view).save(folder / name),
        lambda folder: arrays_of(ss.load_tiling(folder / name)),
    )


def parts(view: ss.Slice, folder: Path) -> tuple[Any, ...]:
    return arrays_of(ss.tessellate(network(len(view.origin)), view, workers=1, folder=folder, progress=False))


def pool(folder: Path) -> list[Any]:
    sampler = PolaritySampler(network(), Box(2), pool=8, cache=folder, progress=False)
    return [value.tolist() for value in sampler.pool.tensors().values()]


def save_timeline(folder: Path) -> None:
    tiling = ss.tessellate(network(), SQUARE)
    measures = {"tiles": np.array([1.0, 2.0])}
    Timeline(np.array([0, 10]), (tiling, tiling), measures, 0.1, 0.2, "none").save(folder / "timeline")


def read_timeline(folder: Path) -> list[Any]:
    found = ss.complexity.load_timeline(folder / "timeline")
    return [*map(arrays_of, found.tilings), found.steps.tolist(), found.measures["tiles"].tolist()]


def write_records(folder: Path) -> None:
    journal = Journal(folder, HEADER, "test")
    for step in (3, 5, 8):
        journal.append({**RECORD, "step": step})


def read_checkpoint(path: Path) -> list[Any]:
    model = network()
    with torch.no_grad():
        model[0].weight.zero_()
    load_checkpoint(model, path)
    return [value.tolist() for value in model.state_dict().values()]


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "tiling": tilings("tiling", SQUARE),
    "line": tilings("line", ss.Slice.segment([-1.0, 0.5], [1.0, 0.0])),
    "solid": tilings("solid", CUBE),
    "timeline": (save_timeline, read_timeline),
    "part": (lambda folder: parts(SQUARE, folder), lambda folder: parts(SQUARE, folder)),
    "part of a solid": (lambda folder: parts(CUBE, folder), lambda folder: parts(CUBE, folder)),
    "pool": (pool, pool),
    "records": (write_records, lambda folder: repr(Journal(folder, HEADER, "test").records)),
    "snapshot": (
        lambda folder: save_checkpoint(network(), folder / "net.safetensors"),
        lambda folder: read_checkpoint(folder / "net.safetensors"),
    ),
}
"""Kind of file -> (writes one into a folder, what reading the folder gives)."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Any]:
    """A folder, a file of a kind in it, and the function that reads the folder."""
    in_this_process(monkeypatch)
    write, read = KINDS[request.param]
    write(tmp_path)
    return tmp_path, min(file for file in tmp_path.iterdir() if file.suffix != ".csv"), read


def flipped(content: bytes, random: np.random.Generator, bits: int = 1) -> bytes:
    changed = bytearray(content)
    for place in random.integers(0, len(content), bits):
        changed[place] ^= 1 << int(random.integers(0, 8))
    return bytes(changed)


def test_damage_is_refused_in_words_or_changes_nothing(kind: tuple[Path, Path, Any]) -> None:
    folder, file, read = kind
    content, whole = file.read_bytes(), read(folder)
    random = np.random.default_rng(0)
    refused = 0
    for trial in range(2 * FLIPS):
        cut = len(content) - int(random.integers(1, len(content)))
        # records that are cut off are those of a run that was killed: what is left of them is read
        whole_length = trial % 2 or file.suffix == ".jsonl"
        file.write_bytes(flipped(content, random) if whole_length else content[:cut])
        try:
            found = read(folder)
        except (ss.FileFormatError, ss.InputError):
            refused += 1
        else:
            assert found == whole, f"trial {trial}"
        file.write_bytes(content)
    assert refused > 0.8 * 2 * FLIPS
    assert read(folder) == whole


def save_data(folder: Path) -> None:
    """Files that have no checksum."""
    x = np.arange(6.0).reshape(3, 2)
    np.save(folder / "x.npy", x)
    np.savez_compressed(folder / "xy.npz", x=x, y=np.arange(3))
    np.savetxt(folder / "x.csv", x, delimiter=",")
    torch.save(torch.from_numpy(x), folder / "x.pt")
    torch.save(network().state_dict(), folder / "net.pt")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("x.npy", lambda path: read_array(str(path))),
        ("xy.npz", lambda path: _load_data(str(path), None)),
        ("x.csv", lambda path: read_array(str(path))),
        ("x.pt", lambda path: read_array(str(path))),
        ("net.pt", read_checkpoint),
    ],
)
def test_a_flipped_bit_in_the_data_of_others_is_read_or_refused_in_words(
    name: str, read: Callable[[Path], Any], tmp_path: Path
) -> None:
    save_data(tmp_path)
    path = tmp_path / name
    content, random = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(20 * FLIPS):
        path.write_bytes(flipped(content, random))
        try:
            read(path)
        except (ss.FileFormatError, ss.InputError):
            refused += 1
    assert refused > 0


class Hostile:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_a_pickle_in_the_place_of_any_file_is_refused_and_not_run(kind: tuple[Path, Path, Any], tmp_path: Path) -> None:
    folder, file, read = kind
    mark = tmp_path / "run"
    pickle.loads(pickle.dumps(Hostile(mark)))
    assert mark.exists(), "this is how it is seen"
    mark.unlink()
    file.write_bytes(pickle.dumps(Hostile(mark)))
    with pytest.raises(ss.FileFormatError):
        read(folder)
    assert not mark.exists()


@pytest.mark.parametrize("read", [load_tensors, read_checkpoint])
def test_a_pickle_in_a_file_of_torch_is_refused_and_not_run(read: Callable[[Path], Any], tmp_path: Path) -> None:
    mark = tmp_path / "run"
    torch.save({"state_dict": Hostile(mark)}, tmp_path / "net.pt")
    with pytest.raises(ss.FileFormatError, match="nothing in it was run"):
        read(tmp_path / "net.pt")
    assert not mark.exists()


def resealed(content: bytes, change: Callable[[dict[str, np.ndarray], dict[str, str]], object]) -> bytes:
    """The same file with other arrays or metadata, and their checksum."""
    arrays = {name: array.copy() for name, array in load(content).items()}
    metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    change(arrays, metadata)
    metadata["sha256"] = archive._digest(arrays, metadata["header"])
    return save(arrays, metadata)


def forge(file: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    file.write_bytes(resealed(file.read_bytes(), lambda arrays, _metadata: change(arrays)))


def largest(folder: Path) -> Path:
    return max(folder.glob("*.safetensors"), key=lambda file: file.stat().st_size)


def put(name: str, place: Any, value: Any) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name][place] = value

    return change


def swapped(name: str) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda arrays: arrays.update({name: arrays[name][[1, 0, *range(2, len(arrays[name]))]]})


FORGERIES = {
    "a corner far out": (put("0.corners", 0, 10**9), "tile_corners must be vertex numbers"),
    "swapped corners": (swapped("0.corners"), "counter-clockwise|fill the slice's domain"),
    "a moved point": (put("0.points", 0, 0.123), "counter-clockwise|fill the slice's domain"),
    "a point outside": (put("0.points", (0, 0), 40.0), "vertices must lie in the slice's domain"),
    "a label of no unit": (put("0.labels", 0, 10**6), "corner_labels"),
    "offsets that go back": (put("0.offsets", 1, -7), "every tile must have"),
    "infinite outputs": (put("0.values", 0, np.inf), "finite numbers"),
    "a leaf too many": (put("leaves", 0, 9), "all tiles of a part"),
    "an unfinished part": (put("stopped", 0, 1), "all tiles of a part"),
    "an array too many": (lambda arrays: arrays.update(derived=np.zeros(3)), "arrays missing or unknown: derived"),
    "too few names": (lambda arrays: arrays.update({"0.names": arrays["0.names"][1:]}), "must have a name"),
    "other numbers": (lambda a: a.update({"0.corners": a["0.corners"].astype(np.int64)}), "corners must be int32"),
}


@pytest.mark.parametrize(
    ("count", "number", "made", "words"),
    [
        ("0", "1", "0", "split by 1 to"),
        ("4", "5", "4", "numbered from 1"),
        ("9" * 42, "1", "1", "split by 1 to"),
        ("9", "1", "8", "by 9 there are 9 parts"),
    ],
)
def test_a_part_whose_name_cannot_be_is_refused_before_the_domain_is_split_by_it(
    count: str, number: str, made: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    parts(SQUARE, tmp_path)
    call = largest(tmp_path).name.split("-by")[0]
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / f"{call}-by{count}-part{number}of{made}.safetensors").write_bytes(b"x")
    with pytest.raises(ss.FileFormatError, match=rf"by{count}-part.*of{made}.* cannot be a part .*{words}.*Remove it"):
        parts(SQUARE, tmp_path)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_part_is_refused_before_a_kernel_reads_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    parts(SQUARE, tmp_path)
    change, words = FORGERIES[name]
    forge(largest(tmp_path), change)
    with pytest.raises(ss.FileFormatError, match=rf"({words}).*Remove it, and it is made again"):
        parts(SQUARE, tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("rank", -1, "rank"), ("singular_values", -1.0, "singular"),
     ("log_volume", np.nan, "log_volume"), ("latents", np.inf, "finite")],
)  # fmt: skip
def test_a_forged_pool_is_refused(name: str, value: float, words: str, tmp_path: Path) -> None:
    pool(tmp_path)
    forge(largest(tmp_path), put(name, 0, value))
    with pytest.raises(ss.FileFormatError, match=words):
        pool(tmp_path)


UNSAFE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}


def unsafe_reads(path: Path) -> list[str]:
    """Calls in a source file that may run what they read: module.load(s), torch.load and np.load unless told not to."""
    found = []
    text = path.read_text(encoding="utf-8")
    if not re.search("load|Unpickler", text):
        return []
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name = ast.unparse(node.func)
        owner, _, called = name.rpartition(".")
        told = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        wrong = owner in UNSAFE and called in {"load", "loads", "Unpickler", "open"}
        wrong |= (
            owner in {"torch", "torch.package", "torch.jit"} and called == "load" and told.get("weights_only") != "True"
        )
        wrong |= owner in {"np", "numpy"} and called in {"load", "fromfile"} and told.get("allow_pickle") != "False"
        if wrong:
            found.append(f"{path.relative_to(SOURCE).as_posix()}: {name}")
    return found


def test_no_source_file_unpickles_what_is_on_disk() -> None:
    """The one that unpickles takes bytes that this process has made, for its own workers."""
    files = list(SOURCE.rglob("*.py"))
    assert len(files) > 200
    assert [wrong for file in files for wrong in unsafe_reads(file)] == ["support/worker_processes.py: pickle.loads"]
    users = {file.relative_to(SOURCE).as_posix() for file in files if "unpacked(" in file.read_text(encoding="utf-8")}
    assert users == {"support/worker_processes.py", "tiling/engine/parts.py"}, (
        "and neither reads what it unpickles from a file"
    )

"""`Library`: the files that the studio was given or sent, opened without running what is in them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from torch import nn

from ..complexity import load_timeline
from ..complexity.timeline import Timeline
from ..data import digits, fashion_mnist
from ..data.fashion import FOLDER
from ..network import SplineNetwork, load, trace
from ..network.files.nnet import nnet_ranges
from ..support.arrays import read_array
from ..support.errors import InputError, SplinescopeError
from ..tiling import Tiling, load_tiling
from ..train.checkpoints import made_by
from ..train.journal import step_of
from .jobs import TORCH
from .tables import Table, read_rows

KINDS = {".onnx": "network", ".nnet": "network", ".tiling": "tiling", ".timeline": "timeline",
         ".safetensors": "weights", ".npy": "data", ".csv": "data"}  # fmt: skip
LABELS = ".labels.npy"
UPLOAD = "upload/"
LONGEST_NAME = 200
"""Bytes of an upload's name: file systems take 255."""
EXAMPLE = "example: digits"
MOST_ENTRIES = 500
MOST_EXAMPLES = 60
"""Shown to choose from, and measured through training; any row can be named."""
_OPEN = 8


@dataclass(frozen=True)
class Specimen:
    """Something under the microscope: a network, a finished tiling, or a network's life.

    `model` is there where checkpoints of `folder` are to be read into it, `weights` the file that was; `ranges` says
    where each input lies, lowest and highest, if the file does.
    """

    name: str
    network: SplineNetwork | None = None
    model: nn.Module | None = None
    tiling: Tiling | None = None
    story: Timeline | None = None
    folder: Path | None = None
    weights: Path | None = None
    ranges: list[tuple[float, float]] = field(default_factory=list)

    @property
    def input_shape(self) -> tuple[int, ...]:
        if self.network is not None:
            return tuple(self.network.input_shape)
        tiling = self.tiling if self.story is None else self.story.tilings[0]
        assert tiling is not None
        return tiling.view.input_shape


@dataclass(frozen=True)
class Examples:
    """Data `[n, *shape]` to lay slices through, with names, classes and the Python that gives it.

    `file` is the entry they are rows of, `columns` what its header calls the numbers of a row, `classes_from` where the
    classes stand, in words, and `unread` what was wrong with files that were passed over.
    """

    data: np.ndarray
    names: list[str]
    made_by: str
    labels: np.ndarray | None = None
    file: str | None = None
    columns: list[str] = field(default_factory=list)
    classes_from: str = ""
    unread: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, table: Table, shape: tuple[int, ...], **about: Any) -> Examples:
        """The rows of a table, each in the shape that a network takes."""
        known, labels = table.classes, None
        if known:
            whole = all(re.fullmatch("-?[0-9]{1,18}", name) for name in known)  # fits 64 bits
            labels = np.array(known, np.int64) if whole else np.unique(known, return_inverse=True)[1]
        names = [f"row {i}: class {known[i]}" if known else f"row {i}" for i in range(len(table.numbers))]
        about |= {"columns": table.columns, "classes_from": table.classes_from}
        return cls(table.numbers.reshape(-1, *shape), names, labels=labels, **about)

    @property
    def start(self) -> list[int]:
        """Three rows to begin with: of different classes, as far as there are three."""
        if self.labels is None:
            return list(range(min(3, len(self.data))))
        first = np.sort(np.unique(self.labels, return_index=True)[1])
        others = np.setdiff1d(np.arange(min(6, len(self.labels))), first)
        return [*first.tolist(), *others.tolist()][:3]

    @property
    def offered(self) -> list[int]:
        """Rows to choose from at a glance: the first ones, of each class alike."""
        if self.labels is None:
            return list(range(min(MOST_EXAMPLES, len(self.data))))
        by_class = np.argsort(self.labels, kind="stable")
        starts = np.searchsorted(self.labels[by_class], self.labels[by_class])
        turn = np.argsort(np.arange(len(by_class)) - starts, kind="stable")
        return sorted(by_class[turn[:MOST_EXAMPLES]].tolist())


class Library:
    """Names of entries, and what they open to: of `given`, a file or folder, and of what pages sent; nothing else.

    `factory` is the `package.module:function` of the command line, into which weights are read.
    """

    def __init__(self, given: Path | None, uploads: Path, factory: str | None = None) -> None:
        self._given = given.resolve() if given is not None else None
        self._uploads = uploads.resolve()
        self.factory = factory
        self._opened = lru_cache(_OPEN)(self._read)

    def entries(self) -> list[dict[str, str]]:
        """Name and kind of everything that can be opened."""
        found = [{"name": name, "kind": self._kind(path)} for name, path in self._paths().items()]
        return [*found, {"name": EXAMPLE, "kind": "network"}]

    def _paths(self) -> dict[str, Path]:
        """The file or folder of every entry but the example, by name."""
        found: dict[str, Path] = {}
        if self._given is not None and self._given.is_file():
            found[self._given.name] = self._given
        elif self._given is not None:
            for path in sorted([self._given, *self._given.glob("*"), *self._given.glob("*/*")])[:MOST_ENTRIES]:
                if self._kind(path) and path.resolve().is_relative_to(self._given):
                    name = path.relative_to(self._given).as_posix()
                    taken = name == EXAMPLE or name.startswith(UPLOAD)
                    found[f"./{name}" if taken else name] = path
        return found | {f"{UPLOAD}{path.name}": path for path in sorted(self._uploads.iterdir())}

    def _kind(self, path: Path) -> str:
        """What a path is to the studio; "" for nothing."""
        if path.is_dir():
            return "checkpoints" if self.factory and len(list(path.glob("*.safetensors"))) > 1 else ""
        kind = KINDS.get(path.suffix.lower(), "")
        return kind if kind != "weights" or self.factory else ""

    def path(self, name: Any) -> Path:
        """The file of an entry; a name that is no entry is refused, whatever it points to."""
        found = self._paths().get(name) if isinstance(name, str) else None
        if found is None:
            raise InputError(f"there is no {str(name)[:80]!r} here.")
        return found

    def written(self, name: str) -> str:
        """The path of an entry as one would write it from the folder in which the studio was started.

        That of an upload is its plain name: the copy here ends with the studio.
        """
        path, here = self.path(name), Path.cwd()
        if name.startswith(UPLOAD):
            return path.name
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    def upload_name(self, name: str) -> str:
        """The plain name of a file that a page is about to send; refused unless it is a kind that is read here."""
        plain = PurePosixPath(name.replace("\\", "/")).name
        kind = KINDS.get(PurePosixPath(plain).suffix.lower())
        if kind is None or plain.startswith(".") or not plain.isprintable():
            raise InputError(f"files ending in {', '.join(KINDS)} are read, got {name[:80]!r}.")
        if len(plain.encode()) > LONGEST_NAME:
            raise InputError(
                f"a file's name may have {LONGEST_NAME} bytes, got {len(plain.encode())}: {plain[:40]!r}..."
            )
        if kind == "weights" and not self.factory:
            raise InputError("weights need the network that they belong to: start the studio with --factory.")
        return plain

    def add(self, file: Path) -> str:
        """Move a file that a page sent among the entries, once it was read; gives its entry's name."""
        name, kind = f"{UPLOAD}{file.name}", self._kind(file)
        with _named(file, name):
            if kind == "data":
                read_rows(file)
            else:
                self._read_file(name, file, kind)
        file.replace(self._uploads / file.name)
        self._opened.cache_clear()  # one of this name may be open
        return name

    def specimen(self, name: Any) -> Specimen:
        """Open an entry; the last few stay open."""
        if not isinstance(name, str):
            raise InputError("name must be the name of an entry.")
        return self._opened(name)

    def _read(self, name: str) -> Specimen:
        if name == EXAMPLE:
            with TORCH:
                return Specimen(EXAMPLE, network=digit_network())
        path = self.path(name)
        with _named(path, name):
            return self._read_file(name, path, self._kind(path))

    def _read_file(self, name: str, path: Path, kind: str) -> Specimen:
        if kind == "tiling":
            return Specimen(name, tiling=load_tiling(path))
        if kind == "timeline":
            return Specimen(name, story=load_timeline(path))
        if kind == "network":
            with TORCH:
                network = load(path)
            return Specimen(name, network=network, ranges=nnet_ranges(path) if path.suffix.lower() == ".nnet" else [])
        if kind in ("weights", "checkpoints"):
            return self._with_weights(name, path, kind)
        raise InputError(f"{name} is no network or tiling.")

    def _with_weights(self, name: str, path: Path, kind: str) -> Specimen:
        assert self.factory is not None
        weights = max(path.glob("*.safetensors"), key=step_of) if kind == "checkpoints" else path
        with TORCH:
            model = made_by(self.factory, weights)
            shape = getattr(model, "input_shape", None)
            if not isinstance(model, nn.Module) or shape is None:
                raise InputError(f"{self.factory} must make a module with an attribute input_shape, e.g. (1, 28, 28).")
            parameter = next(model.parameters())
            network = trace(model, torch.zeros(2, *shape, dtype=parameter.dtype))
        folder = path if kind == "checkpoints" else None
        return Specimen(name, network=network, model=model, folder=folder, weights=weights)

    def examples(self, shape: tuple[int, ...]) -> Examples:
        """Data of a file given (`NAME.npy`, its classes in `NAME.labels.npy`), else the digits or Fashion-MNIST."""
        size = int(np.prod(shape))
        files = [entry["name"] for entry in self.entries() if entry["kind"] == "data"]
        unread: list[str] = []
        sent = [name for name in files if name.startswith(UPLOAD)]
        sent.sort(key=lambda name: -self.path(name).stat().st_mtime)
        for file in [*sent, *(name for name in files if name not in sent)]:  # what was sent last was meant
            try:
                with _named(self.path(file), file):
                    table = read_rows(self.path(file), size)
                beside = str(PurePosixPath(file).with_suffix(LABELS))
                if table.fits(size) and not table.classes and beside in files:
                    table = replace(table, classes=_labels(self.path(beside), len(table.numbers)), classes_from=beside)
            except SplinescopeError as error:  # a table of words beside a network must not keep it from being seen
                unread.append(str(error))
                continue
            if table.fits(size):
                made_by = table.made_by.format(file=self.written(file))
                return Examples.of(table, shape, made_by=made_by, file=file, unread=unread)
        if size == 64:
            (images, labels), made_by = digits(), "ss.data.digits()[0].double().numpy()"
        elif size == 784 and FOLDER.is_dir():
            (images, labels), made_by = fashion_mnist("test"), 'ss.data.fashion_mnist("test")[0].double().numpy()'
        else:
            return Examples(np.zeros((0, *shape)), [], "", unread=unread)
        chosen, classes = images.double().numpy().reshape(-1, *shape), labels.long().numpy()
        return Examples(chosen, [str(label) for label in classes.tolist()], made_by, classes, unread=unread)


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """What is wrong with a file is told by the name that the page knows."""
    try:
        yield
    except SplinescopeError as error:
        raise type(error)(str(error).replace(str(path), name)) from error


def _labels(path: Path, count: int) -> list[str]:
    labels = read_array(str(path))
    if labels.ndim != 1 or len(labels) < count or (labels != np.round(labels)).any():
        raise InputError(f"{path.name} must hold a whole number for each of {count} rows, got shape {labels.shape}.")
    return [str(int(label)) for label in labels[:count]]


def tiling_file(tiling: Tiling, name: str) -> dict[str, Any]:
    """The bytes of a tiling's file with its name, ready for a frame."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tiling")
        tiling.save(path)
        return {"file": f"{name}.tiling", "bytes": np.frombuffer(path.read_bytes(), np.uint8)}


def digit_network() -> SplineNetwork:
    """A small classifier of the digits, trained here and now: something to look at before there is a file."""
    images, labels = digits()
    x = images.reshape(len(images), -1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(8):
            for rows in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), labels[rows]).backward()
                optimizer.step()
    return trace(model.eval(), x[:2])

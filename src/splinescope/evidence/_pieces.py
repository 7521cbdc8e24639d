"""Parts of a long experiment, kept on disk while it runs: an interrupted run loses minutes, not hours.

Experiments know nothing of it. `LONG` names the functions that take their time (one training, one network, one leg);
while `keeping` is on, what such a call returns is written to `OUT/pieces/ID`, and a second run finds it there. A call
is known by its place in the run and by its arguments, under the source, size and seed of the run: with any of them
changed it is made again. Modules and random generators among the arguments are left as the call left them. A damaged
file is made again.

Pieces are pickles: go on only from folders that you trust, as with any checkpoint of torch.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .._errors import SplinescopeError
from .._files import replacing

LONG: dict[str, tuple[str, ...]] = {
    "decomposed-fig2": ("decomposed_fig2._train",),
    "decomposed-fig2-fashion": ("decomposed_fig2_fashion._row",),
    "essay-batch-size": ("essay_batch_size.train_moons",),
    "essay-depth-curvature": ("essay_depth_curvature._train", "essay_depth_curvature.measured"),
    "essay-fidelity": ("essay_fidelity._train", "essay_fidelity._flips"),
    "essay-fidelity-laws": ("essay_fidelity_laws.tile_changes", "essay_fidelity_laws.boundary_moves"),
    "essay-fidelity-tells": ("essay_fidelity_tells.trained",),
    "essay-initialization": ("essay_initialization._train",),
    "essay-initialization-deep": ("essay_initialization_deep._cell",),
    "meanfield-gathering": ("meanfield_gathering._shares",),
    "survey-bn-grokking": ("_grokking.train",),
    "survey-fig6": ("survey_fig6._trained",),
    "survey-fig9": ("_grokking.train",),
    "survey-fig9-mnist": ("survey_fig9_mnist._leg",),
    "survey-language-models": ("survey_language_models._row",),
    "survey-lc-phases": ("_grokking.train",),
    "survey-manifold-law": (
        *("survey_manifold_law.manifold_law", "survey_manifold_law.train_vae"),
        *("survey_manifold_law.uniform_walks", "survey_manifold_law.uniform_law"),
    ),
    "survey-merge-away": ("survey_merge_away.train",),
    "survey-migration": ("survey_migration.tracked",),
    "survey-optimizer": ("survey_optimizer._curve",),
    "survey-placed-norms": ("survey_placed_norms.train", "survey_placed_norms._where", "survey_placed_norms.census"),
    "survey-self-similarity": ("survey_self_similarity._case", "survey_self_similarity._unrelated"),
}
"""Of the experiments of more than three CPU minutes, and of the open questions, the functions of this folder whose
results are kept."""

_SEAL = 32
"""Bytes of the checksum in front of a piece."""


@dataclass
class Pieces:
    """The kept parts of one run.

    Attributes:
        place: Folder of the experiment's pieces.
        run: What their names begin with: source, size and seed.
        found: How many were found and not made again.
        seconds: Wall time that these took when they were made.
        cpu_seconds: CPU time that these took.
    """

    place: Path
    run: str
    found: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    _calls: int = 0

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """`function(*args, **options)`, from its file if it is there, written to it otherwise."""
        self._calls += 1
        digest = hashlib.sha256(_content((args, options))).hexdigest()[:12]
        path = self.place / f"{self.run}-{self._calls:04d}-{digest}"
        kept = _read(path)
        if kept is not None:
            _leave((args, options), kept["left"])
            self.found += 1
            self.seconds += kept["seconds"]
            self.cpu_seconds += kept["cpu_seconds"]
            return kept["result"]
        start, busy = time.perf_counter(), time.process_time()
        token = _ACTIVE.set(None)  # a part of a part is not kept: found again, the part would not ask for it
        try:
            result = function(*args, **options)
        finally:
            _ACTIVE.reset(token)
        piece = {
            "result": result,
            "left": _left((args, options)),
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - busy,
        }
        _write(path, piece)
        return result

    def remove(self) -> None:
        """Once the record is written: the pieces of this run, and those of other sources, which nobody can use."""
        tail = self.run.split("-", 1)[1]
        for path in self.place.glob(f"*-{tail}-*"):
            path.unlink(missing_ok=True)
        for folder in (self.place, self.place.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


_ACTIVE: ContextVar[Pieces | None] = ContextVar("pieces", default=None)


@contextmanager
def keeping(folder: Path, experiment_id: str, source: str, size: str, seed: int) -> Iterator[Pieces]:
    """Inside, the long functions of this experiment are kept in `folder / "pieces"`; of others nothing is."""
    pieces = Pieces(folder / "pieces" / experiment_id, f"{source}-{size}-{seed}")
    for name in LONG.get(experiment_id, ()):
        _kept(name)
    token = _ACTIVE.set(pieces if experiment_id in LONG else None)
    try:
        yield pieces
    finally:
        _ACTIVE.reset(token)


@functools.cache
def _kept(name: str) -> None:
    """Put a function in the place of the named one that asks the run under way, if there is one; once and for all.

    Which run that is belongs to the thread, so that experiments that share a function can run side by side.
    """
    module_name, function_name = name.split(".")
    module = importlib.import_module(f"{__package__}.{module_name}")
    function = getattr(module, function_name)

    @functools.wraps(function)
    def asks(*args: Any, **options: Any) -> Any:
        pieces = _ACTIVE.get()
        return function(*args, **options) if pieces is None else pieces.call(function, args, options)

    setattr(module, function_name, asks)


def _content(value: Any) -> bytes:
    """What tells arguments apart, as bytes; of what is no data the type alone: the call's place tells the rest."""
    if isinstance(value, nn.Module):
        return _content(value.state_dict())
    if isinstance(value, torch.Generator):
        return _content(value.get_state())
    if isinstance(value, torch.Tensor):
        return _content(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, dict):
        return b"{" + b",".join(_content(item) for pair in value.items() for item in pair) + b"}"
    if isinstance(value, list | tuple):
        return b"(" + b",".join(map(_content, value)) + b")"
    if is_dataclass(value) and not isinstance(value, type):
        return _content([getattr(value, field.name) for field in fields(value)])
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value).encode()
    return type(value).__qualname__.encode()


def _changing(arguments: Any) -> list[nn.Module | torch.Generator]:
    """The arguments that a call can leave in another state: modules and random generators."""
    args, options = arguments
    return [value for value in (*args, *options.values()) if isinstance(value, nn.Module | torch.Generator)]


def _left(arguments: Any) -> list[Any]:
    return [
        (copy.deepcopy(value.state_dict()), [m.training for m in value.modules()])
        if isinstance(value, nn.Module)
        else value.get_state()
        for value in _changing(arguments)
    ]


def _leave(arguments: Any, states: list[Any]) -> None:
    for value, state in zip(_changing(arguments), states, strict=True):
        if isinstance(value, nn.Module):
            value.load_state_dict(state[0])
            for module, training in zip(value.modules(), state[1], strict=True):
                module.training = training
        else:
            value.set_state(state)


def _write(path: Path, piece: dict[str, Any]) -> None:
    data = pickle.dumps(piece)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as partial:
            partial.write_bytes(hashlib.sha256(data).digest() + data)
    except OSError as error:
        raise SplinescopeError(
            f"{path.parent} cannot take a part of the run: {error}. What was finished is there."
        ) from error


def _read(path: Path) -> dict[str, Any] | None:
    """A piece; None if it is not there, or not as it was written."""
    if not path.is_file():
        return None
    sealed = path.read_bytes()
    if hashlib.sha256(sealed[_SEAL:]).digest() != sealed[:_SEAL]:
        return None
    piece: dict[str, Any] = pickle.loads(sealed[_SEAL:])
    return piece

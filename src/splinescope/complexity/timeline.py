"""`timeline`: the exact tiling of one slice, and what it tells, at every checkpoint of a training run."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..network.outputs import one_tensor
from ..network.watching.batch_statistics import Statistics, choose, set_statistics_
from ..support.archive import Kind, Layout, read_archive, require, write_archive
from ..support.checks import as_rows, check_module, check_positive
from ..support.display import Result, table
from ..support.drawing import drawn
from ..support.errors import FileFormatError, InputError
from ..support.progress import Progress, telling
from ..support.worker_processes import call_each
from ..tiling import Slice, Tiling, tessellate
from ..tiling.files.loading import read_slice, read_tiling
from ..tiling.files.storage import (
    MESH_LAYOUT,
    OPTIONAL,
    SLICE_LAYOUT,
    check_header,
    mesh_arrays,
    slice_arrays,
    tiling_header,
)
from ..train.checkpoints import ENDINGS, load_checkpoint
from ..train.journal import step_of
from .local_complexity import local_complexity
from .neighborhoods import Radius, as_radius

KIND = Kind("timeline", 2)
_BOUNDARY_SAMPLES = 200


@dataclass(frozen=True, eq=False, repr=False)
class Timeline(Result):
    """A slice through training.

    Attributes:
        steps: `[T]` training steps.
        tilings: The exact tiling of the same slice at each step; the network is not attached (its parameters move on).
        measures: Name -> `[T]` float64. "tiles"; "boundary_length"; "tiles_near_data", "..._boundary", "..._random"
            (mean number of tiles that meet a disc of radius `near` about the slice's anchors, points of the decision
            boundary, random points of the slice; NaN where there are none); "slope_at_data" (mean spectral norm of the
            Jacobian at the anchors); "complexity/NAME" (mean local complexity of each set); "accuracy/NAME".
        radius: Of the local complexity.
        near: Of the discs, in slice coordinates.
        statistics: Of batch norm, at every step: "data", "running", or "none" for a network without it.
    """

    steps: np.ndarray
    tilings: tuple[Tiling, ...]
    measures: dict[str, np.ndarray]
    radius: float
    near: float
    statistics: Literal["data", "running", "none"]
    certainty = "estimate"
    plot = drawn("timeline.plot_timeline")

    def __repr__(self) -> str:
        span = f"steps {self.steps[0]} to {self.steps[-1]}"
        return f"Timeline({len(self.steps)} checkpoints, {span}, {len(self.measures)} measures)"

    def summary(self) -> str:
        """A table: the measures at the first, the middle and the last step."""
        shown = sorted({0, len(self.steps) // 2, len(self.steps) - 1})
        rows = [("measure", *(f"step {self.steps[i]}" for i in shown))]
        rows += [(name, *(f"{values[i]:.4g}" for i in shown)) for name, values in self.measures.items()]
        foot = f"Statistics of batch norm: {self.statistics}. Tilings are exact; means over samples and frames are not."
        return f"{table(rows)}\n{foot}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything into one safetensors file, by atomic replacement."""
        arrays = {"steps": np.asarray(self.steps, np.int64), **slice_arrays(self.tilings[0].view)}
        arrays |= {f"measures/{name}": np.asarray(values, np.float64) for name, values in self.measures.items()}
        for i, tiling in enumerate(self.tilings):
            arrays |= {f"{i}/{name}": array for name, array in mesh_arrays(tiling).items()}
        header = {
            "tilings": [tiling_header(tiling) for tiling in self.tilings],
            "measures": list(self.measures),
            "radius": self.radius,
            "near": self.near,
            "statistics": self.statistics,
        }
        write_archive(path, KIND, arrays, header)


def timeline(
    model: nn.Module, checkpoints: str | os.PathLike[str] | Mapping[int, Mapping[str, Tensor]], view: Slice, *,
    x: Mapping[str, Any], y: Mapping[str, Any] | None = None, radius: Radius = "auto", near: float | None = None,
    max_tiles: int | None = None, statistics: Statistics | None = None, progress: Progress | bool | None = None,
    workers: int | None = None,
) -> Timeline:  # fmt: skip
    """Tile one slice at every checkpoint and measure how tiles move.

    Args:
        model: The architecture; its own parameters are neither used nor changed.
        checkpoints: A folder of .safetensors, .pt, .pth or .ckpt files with the step as the last number in the name
            (such as the monitor's `snapshots`), or state dicts by step. Nothing in a file is executed.
        view: The slice, the same at all steps; its anchors are the data points looked at.
        x: Sets of inputs by name ("train", "test") for local complexity; "random" is added if it is not among
            them: 200 random points of the slice.
        y: Classes `[n]` of some of these sets, by their names: how many of them each checkpoint gets right (by its
            largest output; by the sign of a single one).
        radius: r of the local complexity (method "frame"); "auto" is half the spacing of the set "train" (or the
            first one).
        near: Radius of the discs in which tiles are counted, in slice coordinates; 5% of the side by default. The
            slice's edge cuts discs, which then hold fewer tiles: leave a margin about the data (`pad=`).
        max_tiles: Stop with `LimitReached` beyond this many tiles in one tiling.
        statistics: Of batch norm, as for `ComplexityMonitor`; the data are the set "train" (or the first one).
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).
        workers: Share the checkpoints between so many processes (by joblib, which may send them to a cluster).

    Returns:
        Tilings (exact) and measures by step.

    Cost: one tiling and a few thousand forward passes per checkpoint.

    Example:
        >>> story = timeline(model, "run1/snapshots", view, x={"train": x}, radius=0.05)    # doctest: +SKIP
        >>> story.save("run1.timeline")                                                         # doctest: +SKIP
    """
    check_module(model, read=False)
    if not isinstance(x, Mapping):
        raise InputError(f"x must be sets of inputs by name, {{'train': x}}, got {type(x).__name__}.")
    if view.dimension != 2:
        raise InputError(f"view must be a 2-D slice, got a {view.dimension}-D one.")
    near = 0.05 * float(np.sqrt(view.size)) if near is None else check_positive(near, "near")
    found = dict(checkpoints) if isinstance(checkpoints, Mapping) else _checkpoint_files(checkpoints)
    if not found:
        raise InputError("checkpoints must hold at least one, got none.")
    twin = copy.deepcopy(model).eval()
    places = view.inputs(_random_places(view))
    sets = {name: as_rows(rows, name) for name, rows in {**x, "random": x.get("random", places)}.items()}
    data = sets.get("train", next(iter(sets.values())))
    classes = _checked_classes(y or {}, sets)
    radius = as_radius(radius, data)
    held = choose(statistics, twin, len(data))
    steps = sorted(found)
    batch = data if held == "data" else None
    one = _Moment(twin, view, sets, classes, radius, near, max_tiles, batch)
    moments: dict[int, tuple[Tiling, dict[str, float]]] = {}
    with telling(progress, "timeline") as tell:
        if workers is None:
            for number, step in enumerate(steps):
                tell(number / len(steps), f"step {step}")
                moments[number] = one(found[step])
        else:
            sources, names = [(found[step],) for step in steps], [f"step {step}" for step in steps]
            for number, moment in call_each(one, sources, names, workers=workers):
                moments[number] = moment
                tell(len(moments) / len(steps), names[number])
    rows = [moments[i][1] for i in range(len(steps))]
    measures = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    tilings = tuple(moments[i][0] for i in range(len(steps)))
    return Timeline(np.array(steps, np.int64), tilings, measures, radius, near, held)


@dataclass
class _Moment:
    """From a checkpoint to the tiling and the measures of the model with its parameters; the model is read once."""

    model: nn.Module
    view: Slice
    sets: Mapping[str, Any]
    classes: Mapping[str, Tensor]
    radius: float
    near: float
    max_tiles: int | None
    batch: Tensor | None

    def __call__(self, source: Path | Mapping[str, Tensor]) -> tuple[Tiling, dict[str, float]]:
        load_checkpoint(self.model, source)
        if self.batch is not None:
            measured = copy.deepcopy(self.model)
            set_statistics_(measured, self.batch)
            self.model.load_state_dict(measured.state_dict())  # in place: the traced network reads these tensors
        tiling = tessellate(self.model, self.view, max_tiles=self.max_tiles, progress=False)
        row = _measures(tiling, self.view, self.near)
        for name, inputs in self.sets.items():
            counts = local_complexity(self.model, inputs, radius=self.radius, progress=False)
            row[f"complexity/{name}"] = float(counts.total.double().mean())
        for name, right in self.classes.items():
            row[f"accuracy/{name}"] = _accuracy(self.model, self.sets[name], right)
        return replace(tiling, network=None, frozen=None), row  # a copy of all parameters a step is too much


def _checked_classes(y: Mapping[str, Any], x: Mapping[str, Any]) -> dict[str, Tensor]:
    """Classes as `[n]` whole numbers, one for each point of the set of that name."""
    classes = {}
    for name, given in y.items():
        if name not in x:
            raise InputError(f"y has classes of {name!r}, but x only points of {', '.join(map(repr, x))}.")
        classes[name] = torch.as_tensor(given)
        if classes[name].shape != (len(x[name]),) or classes[name].is_floating_point():
            got = f"{classes[name].dtype} {tuple(classes[name].shape)}"
            raise InputError(f"y[{name!r}] must be {len(x[name])} whole numbers, got {got}.")
    return classes


def _accuracy(model: nn.Module, x: Any, classes: Tensor) -> float:
    """Share of points that get their class: by the largest output, or the sign of a single one."""
    like = next(model.parameters(), torch.zeros(0))
    with torch.no_grad():
        outputs = one_tensor(model(torch.as_tensor(x).to(like))).flatten(1)
    found = outputs.argmax(1) if outputs.shape[1] > 1 else (outputs[:, 0] > 0).long()
    return float((found == classes.to(found.device)).double().mean())


def _measures(tiling: Tiling, view: Slice, near: float) -> dict[str, float]:
    boundary = tiling.decision_boundary()
    anchors = view.anchors if view.anchors.size else np.zeros((0, 2))
    generator = torch.Generator().manual_seed(0)
    on_boundary = boundary.sample(_BOUNDARY_SAMPLES, generator=generator) if len(boundary) else np.zeros((0, 2))
    inside = tiling.locate(anchors)
    inside = inside[inside >= 0]
    return {
        "tiles": float(tiling.count),
        "boundary_length": boundary.length,
        "tiles_near_data": _mean(tiling.counts_near(anchors, near)),
        "tiles_near_boundary": _mean(tiling.counts_near(on_boundary, near)),
        "tiles_near_random": _mean(tiling.counts_near(_random_places(view), near)),
        "slope_at_data": _mean(tiling.input_slope_norms(inside)) if len(inside) else float("nan"),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _random_places(view: Slice) -> np.ndarray:
    """`[200, 2]` random points of the slice, the same in every call: triangles from the first corner, by area."""
    generator = np.random.default_rng(0)
    first, edges = view.domain[0], view.domain[1:] - view.domain[0]
    a, b = edges[:-1], edges[1:]
    areas = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    chosen = generator.choice(len(areas), _BOUNDARY_SAMPLES, p=areas / areas.sum())
    u, v = np.sort(generator.random((2, _BOUNDARY_SAMPLES, 1)), axis=0)
    return first + u * a[chosen] + (v - u) * b[chosen]


def _checkpoint_files(folder: str | os.PathLike[str]) -> dict[int, Path]:
    """Step -> file."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"checkpoints must be a folder or state dicts by step, got {str(folder)!r}.")
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS)
    if not files:
        raise InputError(f"{path} holds no checkpoints: files ending in {', '.join(ENDINGS)} are read.")
    steps = [step_of(file) for file in files]
    if twice := {n for n in steps if steps.count(n) > 1}:
        raise InputError(f"each checkpoint must have a step of its own in its name; {min(twice)} came twice.")
    return dict(zip(steps, files, strict=True))


def load_timeline(path: str | os.PathLike[str]) -> Timeline:
    """Read a timeline that `Timeline.save` wrote; nothing in the file is executed.

    Raises:
        InputError: There is no such file.
        FileFormatError: The file is corrupt, of an unknown version, or something else altogether.
    """
    optional: set[str] = set()

    def layout(header: dict[str, Any]) -> Layout:
        require(isinstance(header["tilings"], list) and len(header["tilings"]) > 0, "list of tilings")
        require(all(isinstance(measure, str) for measure in header["measures"]), "names of measures")
        for key in ("radius", "near"):
            require(type(header[key]) is float and 0 < header[key] < np.inf, f"{key} {header[key]!r}")
        require(header["statistics"] in ("data", "running", "none"), f"statistics {header['statistics']!r}")
        for tiling in header["tilings"]:
            check_header(tiling)
        count = len(header["tilings"])
        optional.update(f"{i}/{key}" for i in range(count) for key in OPTIONAL)
        meshes = {f"{i}/{key}": kind for i in range(count) for key, kind in MESH_LAYOUT.items()}
        measures = {f"measures/{measure}": (np.float64, 1) for measure in header["measures"]}
        return {"steps": (np.int64, 1), **measures, **meshes, **SLICE_LAYOUT}

    name, header, arrays = read_archive(path, KIND, layout, optional)
    view = read_slice(name, arrays)
    tilings = []
    for i, tiling in enumerate(header["tilings"]):
        own = {key: arrays[f"{i}/{key}"] for key in MESH_LAYOUT if f"{i}/{key}" in arrays}
        tilings.append(read_tiling(f"{name}, tiling {i}", own, view, tiling))
    measures = {measure: arrays[f"measures/{measure}"] for measure in header["measures"]}
    for key, values in {"steps": arrays["steps"], **measures}.items():
        if len(values) != len(tilings):
            raise FileFormatError(f"{name}: {key} must be one number per tiling, {len(tilings)}, got {len(values)}.")
    if (np.diff(arrays["steps"]) <= 0).any():
        raise FileFormatError(f"{name}: steps must ascend.")
    return Timeline(arrays["steps"], tuple(tilings), measures, header["radius"], header["near"], header["statistics"])

"""`expectation`: mean, covariance and class probabilities of a network's outputs over a set of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from ..network import SplineNetwork
from ..network.program import Program
from ..support.checks import check_whole
from ..support.display import Certainty, Result, in_words, table
from ..support.errors import InputError, LimitReached
from ..support.progress import Progress, check_progress
from ..tiling.cells.lists import owners, reduced
from ..tiling.measures.differentiate import blocks, outputs
from ..tiling.measures.maps import corner_values, iterate_slopes
from ..tiling.measures.quantities import tile_quantity
from ..tiling.measures.tile_shapes import UNIT
from ..tiling.slice import Slice
from ..tiling.tessellate import tessellate
from ..tiling.tiling import Tiling
from .forms import with_forms
from .laws import Gaussian, masses, moments
from .models import as_network, checked_program
from .property import Property
from .rounding import error_at, error_on
from .sets import view_of
from .verify import verify
from .winners import class_weights

_TILES_TOGETHER = 1 << 12  # whose maps are compared with the outputs at their corners


@dataclass(frozen=True, eq=False, repr=False)
class Expectation(Result):
    """What a network's outputs are on average over a set.

    Attributes:
        mean: `[C]` of the flattened outputs.
        covariance: `[C, C]`.
        classes: `[C]` probability that each output is the largest; of a single output, `[2]`: not positive, positive.
        unsafe: Probability that the property asked about is violated; None without one.
        quantity: Mean of the quantity asked for; None without one.
        errors: Standard errors of these numbers, by name; all zero where they are exact. Those of probabilities are at
            least 1 in the number of points: what none of them met has a probability, too.
        law: What inputs are drawn from, in words.
        tiles: How many tiles were used; 0 where points were.
        missed: How much the tiles' volumes, summed up, are off that of the set, as a share of it: rounding.
        rounding: Proven bounds of the rounding of these numbers, by name, where they are exact; that of `quantity`
            takes its values on tiles as given.
    """

    mean: np.ndarray
    covariance: np.ndarray
    classes: np.ndarray
    unsafe: float | None
    quantity: np.ndarray | float | None
    errors: dict[str, Any]
    law: str
    tiles: int
    missed: float
    rounding: dict[str, Any] = field(default_factory=dict)
    certainty: Certainty = field(default="exact", kw_only=True)

    def _shown(self) -> list[tuple[str, Any]]:
        return [("mean", self.mean), ("classes", self.classes), ("law", self.law), ("tiles", self.tiles)]

    def summary(self) -> str:
        """Means with their deviations and errors, and how they came about."""
        deviations = np.sqrt(np.clip(np.diag(self.covariance), 0.0, None))
        rows = [("means", in_words(self.mean)), ("standard deviations", in_words(deviations)),
                ("class probabilities", in_words(self.classes))]  # fmt: skip
        rows += [("unsafe", f"{self.unsafe:.6g}")] if self.unsafe is not None else []
        rows += [("quantity", in_words(self.quantity))] if self.quantity is not None else []
        if self.certainty == "estimate":
            rows.append(("standard errors of means", in_words(self.errors["mean"])))
        off = [f"{name} at most {np.max(bound):.2g}" for name, bound in self.rounding.items()]
        said = f" Rounding: {'; '.join(off)}." if off else ""
        return f"{table(rows)}\nInputs: {self.law}. {self.assurance}{said}"


def expectation(
    model: nn.Module | SplineNetwork,
    over: Any,
    law: Any = "uniform",
    *,
    property: Property | None = None,
    quantity: str | Callable[[Tiling], Any] | None = None,
    count: int = 1 << 16,
    seed: int = 0,
    max_tiles: int | None = None,
    time_limit: float | None = None,
    progress: Progress | bool | None = None,
) -> Expectation:
    """Mean, covariance and class probabilities of the outputs for inputs drawn from a set.

    On a tile with map `A t + c`, volume V, centroid m and covariance S of its points,

        E f = sum V (A m + c),    E f f' = sum V ((A m + c)(A m + c)' + A S A'),    with V in shares of the set

    Class probabilities are volumes of tiles, cut where the largest output changes. All of that is exact, as it is under
    a Gaussian on lines; in more dimensions numbers are means over Sobol' points, with standard errors from 16
    independent scramblings.

    Args:
        model: A torch module in eval mode, or the result of `trace` or `load`. Before any ending (softmax).
        over: A `Slice`, a pair (low, high) of the corners of a box, or the result of `guarantees.polytope`.
        law: "uniform" on the set, or (mean, std) of a Gaussian, conditioned on the set: independent in the slice's
            coordinates, which of a box are its free inputs; numbers, or one per coordinate.
        property: Also find the probability that this `Property` is violated.
        quantity: Also find the mean of a number per tile: a name as in `tiling.quantity`, or a function from the
            tiling to an array `[K]` or `[K, m]`.
        count, seed: Points that are drawn where the result is an estimate, and their seed.
        max_tiles, time_limit, progress: As in `tessellate`.

    Raises:
        LimitReached: There are more tiles than that; no number is known then.
        InputError: The set is empty or has more than eight free dimensions, or holds none of the law's mass.

    Cost: a tiling, and some microseconds per tile and class that meets another one there.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        >>> found = ss.guarantees.expectation(net, (-1.0, 1.0))
        >>> found.certainty, round(float(found.classes.sum()), 9)
        ('exact', 1.0)
    """
    check_progress(progress)
    check_whole(count, "count", least=256)
    check_whole(seed, "seed", least=0)
    if not (law == "uniform" if isinstance(law, str) else isinstance(law, (tuple, list)) and len(law) == 2):
        raise InputError(f'law must be "uniform", or (mean, std) of a Gaussian, got {law!r}.')
    if property is not None and (not isinstance(property, Property) or property.slope is not None):
        raise InputError("property must be a Property about values: one about slopes has no probability here.")
    network = as_network(model, over)
    program = checked_program(network)
    view = view_of(over, tuple(program.input_shape))
    if not isinstance(view, Slice):
        return _at_point(network, view, property, quantity)
    limits: dict[str, Any] = {"max_tiles": max_tiles, "time_limit": time_limit, "progress": progress}
    gaussian = None if isinstance(law, str) else Gaussian.from_pair(law, view)
    if gaussian is not None and view.dimension > 1:
        tiling = None if quantity is None else tessellate(network, view, **limits)
        return _by_points(program, view, gaussian, property, quantity, tiling, count, seed)
    tiling = tessellate(network, view, rows="plain", **limits)  # whose rounding is proven
    unsafe, doubt = (None, None) if property is None else _unsafe(network, property, over, view, gaussian, limits)
    return _by_tiles(tiling, program, gaussian, quantity, unsafe, doubt)


def _by_tiles(
    tiling: Tiling, program: Program, gaussian: Gaussian | None, quantity: Any, unsafe: float | None,
    doubt: float | None,
) -> Expectation:  # fmt: skip
    """Exactly: the uniform law, or a Gaussian on a line."""
    view = tiling.view
    law = f"uniform on a set of {view.dimension} dimensions"
    found, measure = moments(tiling) if gaussian is None else gaussian.moments(tiling), masses
    if gaussian is not None:
        law, measure = "Gaussian on a line, conditioned on the set", gaussian.masses
    total = float(found.masses.sum())
    if not total > 0:
        raise InputError("the set must have some of the law's mass: it lies too many deviations from the mean.")
    share = found.masses / total
    values = outputs(program, view.inputs(found.centers))
    mean = share @ values
    apart = values - mean
    covariance = (apart * share[:, None]).T @ apart
    off = error_on(program, view, tiling.rtol)
    # the shares are off by that much in sum; then the sums below are rounded
    loose = float(2 * found.masses_off.sum() / total + (tiling.count + 16) * UNIT)
    size, mean_off, covariance_off = np.abs(apart).max(0), loose * np.abs(mean), np.zeros_like(covariance)
    for tiles, slopes in iterate_slopes(tiling):
        part = slice(int(tiles[0]), int(tiles[-1]) + 1)
        inner, inner_off = found.spreads(part)
        covariance += _sandwiched(slopes, inner, share[part])
        steep = np.abs(slopes)
        inner_off = inner_off + view.dimension * (tiling.count + 16) * UNIT * np.abs(inner)
        covariance_off += _sandwiched(steep, inner_off, share[part])
        misfit, tops = _misfits(tiling, part, slopes, found.centers[part], values[part], mean)
        astray = off + misfit + (steep @ found.centers_off[part, :, None])[:, :, 0]
        tops += astray
        crossed = (tops * share[part, None]).T @ astray
        covariance_off += crossed + crossed.T
        mean_off += share[part] @ astray
        size = np.maximum(size, tops.max(0))
    mean_off = 1.01 * (mean_off + loose * size)
    covariance_off = 1.01 * (covariance_off + loose * np.outer(size, size) + np.outer(mean_off, mean_off))
    classes, doubts = class_weights(tiling, measure, off)
    classes_off = (doubts + doubts.sum()) / found.whole + len(classes) * UNIT
    rounding: dict[str, Any] = {"mean": mean_off, "covariance": covariance_off, "classes": classes_off}
    averaged = None
    if quantity is not None:
        of_tiles = _per_tile(tiling, quantity)
        averaged = np.tensordot(share, of_tiles, 1)
        each = np.abs(of_tiles)
        rounding["quantity"] = _scalar(np.tensordot(found.masses_off / total + loose * share, each, 1))
    numbers = {"mean": mean, "covariance": covariance, "classes": classes, "unsafe": unsafe, "quantity": averaged}
    errors = {name: 0.0 * np.abs(value) for name, value in numbers.items() if value is not None}
    return Expectation(
        mean, (covariance + covariance.T) / 2, classes / classes.sum(), unsafe, _scalar(averaged), errors, law,
        tiling.count, abs(total - found.whole) / found.whole, rounding | ({} if doubt is None else {"unsafe": doubt}),
    )  # fmt: skip


def _sandwiched(slopes: np.ndarray, inner: np.ndarray, share: np.ndarray) -> np.ndarray:
    """`[C, C]` the sum of `A S A'` over tiles, each with its share."""
    tilted = (slopes @ inner) * share[:, None, None]
    flat = slopes.transpose(1, 0, 2).reshape(slopes.shape[1], -1)
    return np.asarray(tilted.transpose(1, 0, 2).reshape(slopes.shape[1], -1) @ flat.T)


def _misfits(
    tiling: Tiling, part: slice, slopes: np.ndarray, centers: np.ndarray, values: np.ndarray, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`[n, C]` each: how far the maps `y + A (t - center)` of tiles are from the outputs kept at their corners, and
    from the mean."""
    found = np.empty((2, *values.shape))
    for block in blocks(part.stop - part.start, _TILES_TOGETHER):
        cells = tiling.tiles.some(np.arange(part.start + block.start, part.start + block.stop))
        owner = owners(cells.offsets)
        away = tiling.vertices[cells.corners] - centers[block][owner]
        fit, terms = values[block][owner], np.abs(values[block])[owner]
        for axis in range(tiling.dimension):
            step = slopes[block, :, axis][owner] * away[:, axis, None]
            fit, terms = fit + step, terms + np.abs(step)
        gap = np.abs(fit - corner_values(tiling, cells.corners)) + 4 * (tiling.dimension + 2) * UNIT * terms
        for row, of_corners in zip(found, (gap, np.abs(fit - mean) + gap), strict=True):
            row[block] = reduced(np.maximum, of_corners, cells.offsets)
    return found[0], found[1]


def _by_points(
    program: Program, view: Slice, gaussian: Gaussian, property: Property | None, quantity: Any,
    tiling: Tiling | None, count: int, seed: int,
) -> Expectation:  # fmt: skip
    """By scrambled points, each scrambling an estimate of its own."""
    per_tile = None if tiling is None else _per_tile(tiling, quantity)
    found: dict[str, list[Any]] = {name: [] for name in ("mean", "square", "classes", "unsafe", "quantity")}
    drawn = gaussian.draw(view, count, seed)
    for points in drawn:
        x = view.inputs(points)
        y = outputs(program, x)
        found["mean"].append(y.mean(0))
        found["square"].append(y.T @ y / len(y))
        found["classes"].append(_shares(y))
        if property is not None:
            found["unsafe"].append(_unsafe_share(program, property, x))
        if per_tile is not None and tiling is not None:
            at = tiling.locate(points)
            found["quantity"].append(per_tile[at[at >= 0]].mean(0))
    means = {name: np.mean(parts, axis=0) for name, parts in found.items() if parts}
    errors = {name: np.std(parts, axis=0, ddof=1) / np.sqrt(len(parts)) for name, parts in found.items() if parts}
    for name in errors.keys() & {"classes", "unsafe"}:  # what no point has met may happen nevertheless
        errors[name] = np.maximum(errors[name], 1.0 / sum(map(len, drawn)))
    errors["covariance"] = errors.pop("square")
    return Expectation(
        means["mean"], means["square"] - np.outer(means["mean"], means["mean"]), means["classes"],
        float(means["unsafe"]) if property is not None else None, _scalar(means.get("quantity")), errors,
        f"Gaussian in {view.dimension} dimensions, conditioned on the set", 0 if tiling is None else tiling.count, 0.0,
        certainty="estimate",
    )  # fmt: skip


def _at_point(network: SplineNetwork, x: np.ndarray, property: Property | None, quantity: Any) -> Expectation:
    if quantity is not None:
        raise InputError("over must have an input that is free: a single point has no tiles, so no quantity.")
    program = network.program()
    y, off = (found[0] for found in error_at(program, torch.from_numpy(x[None])))
    classes, zero = _shares(y[None]), np.zeros((len(y), len(y)))
    scores = y if len(y) > 1 else np.append(0.0, y)
    close = scores.max() - scores <= 2 * off.max()
    errors = {"mean": 0.0 * y, "covariance": zero, "classes": 0.0 * classes}
    rounding: dict[str, Any] = {"mean": off, "covariance": zero, "classes": 1.0 * (close & (close.sum() > 1))}
    unsafe = None
    if property is not None:
        unsafe, errors["unsafe"] = _unsafe_share(program, property, x[None]), np.zeros(())
        rounding["unsafe"] = float(verify(network, property, (x.reshape(-1), x.reshape(-1))).holds is None)
    return Expectation(y, zero, classes, unsafe, None, errors, "one point", 0, 0.0, rounding)


def _shares(y: np.ndarray) -> np.ndarray:
    """`[C]` the share of outputs `[n, C]` in which each class wins; of one output, whether it is positive."""
    wins = y.argmax(1) if y.shape[1] > 1 else (y[:, 0] > 0).astype(int)
    return np.bincount(wins, minlength=max(2, y.shape[1])) / len(y)


def _unsafe_share(program: Program, property: Property, x: np.ndarray) -> float:
    """The share of inputs `[n, *input_shape]` that violate a property."""
    clauses = property.sized(x[0].size, int(np.prod(program.output_shape)))
    values = outputs(with_forms(program, clauses).program, x)
    strict = np.array([clause.strict.any() for clause in clauses], bool)  # equality is safe
    return float(((values < 0) | ((values == 0) & ~strict)).any(1).mean())


def _unsafe(
    network: SplineNetwork, property: Property, over: Any, view: Slice, gaussian: Gaussian | None,
    limits: dict[str, Any],
) -> tuple[float, float]:  # fmt: skip
    """The probability of the unsafe set and a bound of its rounding, from its polytopes of the set's dimension."""
    verdict = verify(network, property, over, complete=True, **limits)
    if verdict.unsafe is None:
        raise LimitReached(f"{verdict.reason} The probability of the unsafe set is not known.", None)
    unsafe = verdict.unsafe
    whole = np.array([part.dimension == view.dimension for part in unsafe.view])[unsafe.parts]
    if gaussian is None:
        return float(unsafe.volumes[whole].sum() / view.size), unsafe.rounding / view.size
    ends = [np.sort(corners[:, 0])[[0, -1]] for corners, one in zip(unsafe.polytopes, whole, strict=True) if one]
    domain = view.domain.reshape(1, 2)
    (mass, *_), (mass_off, *_) = (found[0] for found in gaussian.intervals(domain))
    found, off = gaussian.intervals(np.array(ends).reshape(-1, 2))
    share = float(found[:, 0].sum() / mass)
    moved = 1.01 * unsafe.rounding * gaussian.densest(domain)[0] / gaussian.std[0]
    return share, float((moved + off[:, 0].sum() + share * mass_off) / mass + (len(ends) + 8) * UNIT)


def _per_tile(tiling: Tiling, quantity: Any) -> np.ndarray:
    values = tile_quantity(tiling, quantity).values if isinstance(quantity, str) else np.asarray(quantity(tiling))
    if values.ndim < 1 or len(values) != tiling.count:
        raise InputError(f"quantity must give one number (or row) per tile, {tiling.count}, got shape {values.shape}.")
    return values.astype(np.float64)


def _scalar(value: Any) -> Any:
    return float(value) if value is not None and np.ndim(value) == 0 else value

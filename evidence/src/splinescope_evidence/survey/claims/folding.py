"""Hyperplanes of a layer fold where they cross those of an earlier one; the angle, and what sigma does to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots

SIGMAS = (0.1, 0.5, 1.0, 2.0, 10.0)


def _linear(net: nn.Sequential, place: int) -> nn.Linear:
    layer = net[place]
    assert isinstance(layer, nn.Linear)
    return layer


def _two_layers(seed: int, units: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2, units), nn.ReLU(), nn.Linear(units, 1), nn.ReLU()).double().eval()


def _formula(net: nn.Sequential, point: np.ndarray, crossed: int) -> float:
    """Dihedral angle of the second layer's fold at a point on fold `crossed` of the first, from the weights alone.

    `n- = W1^T D v` with unit `crossed` off, `n+ = n- + v_k w_k`; the angle is `pi - angle(n-, n+)`.
    """
    first, second = _linear(net, 0), _linear(net, 2)
    w, b = first.weight.detach().numpy(), first.bias.detach().numpy()
    v = second.weight.detach().numpy()[0]
    on = (w @ point + b) > 0
    on[crossed] = False
    minus = (v * on) @ w
    plus = minus + v[crossed] * w[crossed]
    cosine = minus @ plus / (np.linalg.norm(minus) * np.linalg.norm(plus))
    return float(np.pi - np.arccos(np.clip(cosine, -1, 1)))


def _compared(seed: int, units: int) -> tuple[list[float], int]:
    """Differences between angles measured on the tiling and the formula, and crossings that do not bend."""
    net = _two_layers(seed, units)
    tiling = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -6, 6), progress=False)
    bends = tiling.bends()
    found, straight = [], 0
    for vertex, unit, crossed, angle in zip(bends.vertices, bends.cuts, bends.crossed, bends.angles, strict=True):
        if unit < units or crossed >= units:
            continue  # only folds of the second layer across folds of the first
        expected = _formula(net, tiling.vertices[vertex], int(crossed))
        found.append(abs(float(angle) - expected))
        straight += abs(np.pi - angle) < 1e-9
    return found, straight


def _by_sigma(seed: int, units: int) -> np.ndarray:
    """`[crossings, sigmas]` dihedral angles in degrees, measured on tilings with the crossed unit divided by sigma.

    The crossed unit is 0 on its fold, so that the second layer's fold crosses it at the same places whatever sigma is.
    A crossing that a tiling does not have is nan there.
    """
    tables = []
    for k in range(units):
        columns = []
        for sigma in SIGMAS:
            net = _two_layers(seed, units)
            with torch.no_grad():
                _linear(net, 2).weight[0, k] /= sigma  # dividing unit k by sigma is dividing the weight that reads it
            columns.append(_angles(net, units, k))
        places = columns[SIGMAS.index(1.0)][0]
        tables.append(np.stack([_at(places, *column) for column in columns], 1))
    return np.degrees(np.concatenate(tables))


def _angles(net: nn.Sequential, units: int, crossed: int) -> tuple[np.ndarray, np.ndarray]:
    """`[n, 2]` places where folds of the second layer cross fold `crossed` of the first, and their `[n]` angles."""
    tiling = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -6, 6), progress=False)
    bends = tiling.bends()
    chosen = (bends.cuts >= units) & (bends.crossed == crossed)
    return tiling.vertices[bends.vertices[chosen]], bends.angles[chosen]


def _at(places: np.ndarray, found: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """The angle found at each place, nan where none is within 1e-9 of it."""
    if not len(found):
        return np.full(len(places), np.nan)
    far = np.linalg.norm(places[:, None] - found[None], axis=2)
    return np.where(far.min(1) < 1e-9, angles[far.argmin(1)], np.nan)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    count, units = (3, 6) if size == "quick" else (60, 6)
    differences: list[float] = []
    straight = 0
    for i in range(count):
        if progress is not None:
            progress(i / count, f"network {i + 1} of {count}")
        found, flat = _compared(100 * seed + i, units)
        differences += found
        straight += flat
    by_sigma = np.concatenate([_by_sigma(100 * seed + i, units) for i in range(count)])
    medians = np.nanmedian(by_sigma, axis=0)
    rising = float((np.diff(by_sigma, axis=1) > 0).all(1).mean())
    lost = float(np.isnan(by_sigma).mean())
    moved = max(_own_folds_moved(100 * seed + i, units) for i in range(count))
    worst = max(differences, default=np.nan)
    share = straight / max(len(differences), 1)
    claims = (
        judged(
            "Survey, folding of hyperplanes: a fold of the second layer bends where it crosses one of the first, "
            "by the "
            "dihedral angle pi - angle(n-, n- + v_k w_k).",
            f"{len(differences)} crossings in {count} networks 2-{units}-1: largest difference of measured and "
            f"computed "
            f"angle {worst:.1e} rad; without a bend: {straight}",
            holds=[
                Check("largest difference, rad", worst, "<", 1e-6, "walls as short as 1e-9 of the slice lose digits"),
                Check("share of crossings without a bend", share, "<", 0.01, "'every time' holds for generic weights"),
            ],
            needs=[Check("crossings", float(len(differences)), ">", 0.5, "none would test nothing")],
        ),
        judged(
            "Essay: sigma sets how sharply later folds bend: the larger sigma, the flatter, up to 180 degrees (with "
            "one unit divided by it, at every crossing with that unit's fold; by algebra n- + v_k w_k / sigma turns "
            "towards n- as sigma grows).",
            f"{len(by_sigma)} crossings in {count} networks, measured on a tiling for each unit and sigma: median "
            "angle "
            + ", ".join(f"{m:.1f} at sigma {s:g}" for s, m in zip(SIGMAS, medians, strict=True))
            + f" degrees; rising throughout at {rising:.1%} of them; not found at some sigma: {lost:.1%}",
            holds=[
                Check("share of crossings with rising angles", rising, ">", 0.999, "algebra leaves no exception"),
                Check("median angle at sigma 10, degrees", float(medians[-1]), ">", 170.0, "n+ tends to n-"),
            ],
            needs=[
                Check("crossings", float(len(by_sigma)), ">", 0.5, "none would test nothing"),
                Check("share of crossings that a tiling does not have", lost, "<", 0.01, "they stay where they are"),
            ],
        ),
        judged(
            "Essay: sigma moves the layer's own folds towards the data.",
            f"largest move of a crossing of the layer's folds when batch norm divides its units by sigma in {SIGMAS}, "
            f"{count} networks: {moved:.1e}",
            holds=[Check("largest move", moved, ">", 1e-6, "a positive factor cannot move a zero set")],
        ),
    )
    return Outcome({"differences": differences, "sigmas": SIGMAS, "by sigma": by_sigma}, claims)


def _own_folds_moved(seed: int, units: int) -> float:
    """How far the vertices of a layer's own tiling move if its batch norm divides by sigma; infinite if some vanish."""
    first = _linear(_two_layers(seed, units), 0)
    before, worst = None, 0.0
    for sigma in SIGMAS:
        norm = nn.BatchNorm1d(units, eps=0.0, affine=False).double()
        assert norm.running_var is not None
        norm.running_var.fill_(sigma**2)
        net = nn.Sequential(first, norm, nn.ReLU()).eval()
        found = tessellate(net, Slice.axes([0.0, 0.0], (0, 1), -6, 6), progress=False).vertices
        found = found[np.lexsort(found.round(6).T)]
        if before is None:
            before = found
        worst = max(worst, float(np.abs(found - before).max()) if found.shape == before.shape else float("inf"))
    return worst


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    left.hist(np.log10(np.maximum(numbers["differences"], 1e-17)), bins=30, color="#3b528b")
    left.set(xlabel="log10 of |measured - computed angle|, rad", ylabel="crossings")
    table = np.array(numbers["by sigma"])
    for row in table:
        right.semilogx(numbers["sigmas"], row, color="#3b528b", alpha=0.15)
    right.semilogx(numbers["sigmas"], np.median(table, axis=0), "o-", color="#d55e00", label="median")
    right.set(xlabel="sigma of the crossed unit", ylabel="dihedral angle, degrees")
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Folds bend where they cross, and sigma sets the angle",
    run,
    draw,
    place="the folding of hyperplanes, near Figure 3; the essay's part on the scale sigma",
    revised=(2,),
)

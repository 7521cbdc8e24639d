"""Writes the networks of the test bed with their certified answers: python -m benchmarks.regions.make"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

from .reference import answers, cells_of

FOLDER = Path(__file__).parent / "networks"
Layer = dict[str, Any]


def drawn(*widths: int, seed: int, bias: bool = True) -> list[Layer]:
    """Gaussian weights rounded to 1/64, scaled as He does."""
    draw = random.Random(seed)

    def number(scale: float) -> float:
        return round(draw.gauss(0, scale) * 64) / 64

    return [
        {
            "weight": [[number((2 / a) ** 0.5) for _ in range(a)] for _ in range(b)],
            "bias": [number(0.5) * bias for _ in range(b)],
        }
        for a, b in pairwise(widths)
    ]


def at_its_median(case: dict[str, Any]) -> dict[str, Any]:
    """The output moved to where half of the cells are above zero, and none lies at it."""
    values = sorted(cell.value(cell.middle) for cell in cells_of(case))
    *layers, last = case["layers"]
    level = round(values[len(values) // 2] * 64) / 64 + 1 / 128
    return {**case, "layers": [*layers, {**last, "bias": [bias - level for bias in last["bias"]]}]}


def twins(layers: list[Layer]) -> list[Layer]:
    """The first unit of the first layer a second time, half of its output weight on each."""
    first, second, *rest = layers
    doubled = {"weight": [*first["weight"], first["weight"][0]], "bias": [*first["bias"], first["bias"][0]]}
    halved = [[row[0] / 2, *row[1:], row[0] / 2] for row in second["weight"]]
    return [doubled, {**second, "weight": halved}, *rest]


def dead(layers: list[Layer]) -> list[Layer]:
    """A unit that is off on the whole box."""
    first, second, *rest = layers
    wider = {"weight": [*first["weight"], [0.25] * len(first["weight"][0])], "bias": [*first["bias"], -64.0]}
    return [wider, {**second, "weight": [[*row, 1.0] for row in second["weight"]]}, *rest]


def sawtooth(teeth: int) -> list[Layer]:
    """x -> |2x - 1| again and again: 2^teeth pieces of slope +-2^teeth on [0, 1]."""
    tent: Layer = {"weight": [[2.0], [-2.0]], "bias": [-1.0, 1.0]}
    inner: Layer = {"weight": [[2.0, 2.0], [-2.0, -2.0]], "bias": [-1.0, 1.0]}
    return [tent, *[inner] * (teeth - 1), {"weight": [[1.0, 1.0]], "bias": [-0.375]}]


def ring() -> list[Layer]:
    """|x| + |y| between two levels: a region with a hole."""
    return [
        {"weight": [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], "bias": [0.0] * 4},
        {"weight": [[1.0] * 4, [-1.0] * 4], "bias": [-1.0, 1.0]},
        {"weight": [[-1.0, -1.0]], "bias": [0.375]},
    ]


def cases() -> dict[str, dict[str, Any]]:
    """Name -> network, box and what is special about it."""
    made: dict[str, tuple[str, list[Layer], float, float, float]] = {}
    for seed, widths in enumerate([(2, 4, 1), (2, 8, 1), (2, 12, 1), (2, 4, 4, 1), (2, 6, 6, 1), (2, 8, 8, 1)]):
        made["plane-" + "-".join(map(str, widths[1:-1]))] = ("drawn at random", drawn(*widths, seed=seed), 0, -2, 2)
    for seed, widths in enumerate([(2, 4, 4, 4, 1), (2, 5, 5, 5, 1), (2, 3, 3, 3, 3, 1)], 10):
        made["deep-" + "-".join(map(str, widths[1:-1]))] = (
            "drawn at random, deep",
            drawn(*widths, seed=seed),
            0,
            -2,
            2,
        )
    for seed in (20, 21, 22):
        layers = drawn(2, 6, 5, 1, seed=seed, bias=False)
        made[f"zero-bias-{seed}"] = ("all folds meet in the origin", layers, 0, -1, 1)
    for seed in (30, 31, 32):
        made[f"twins-{seed}"] = ("a unit that is there twice", twins(drawn(2, 5, 4, 1, seed=seed)), 0, -2, 2)
    for seed in (40, 41, 42):
        made[f"dead-{seed}"] = ("a unit that never turns on", dead(drawn(2, 5, 4, 1, seed=seed)), 0, -2, 2)
    for seed in (50, 51, 52):
        made[f"leaky-{seed}"] = ("leaky ReLU of slope 1/8", drawn(2, 6, 5, 1, seed=seed), 0.125, -2, 2)
    for seed in (60, 61):
        made[f"wide-box-{seed}"] = (
            "nearly all of its folds are far from the origin",
            drawn(2, 6, 6, 1, seed=seed),
            0,
            -64,
            64,
        )
    made["ring"] = ("a region with a hole", ring(), 0, -2, 2)
    for teeth in (3, 6):
        made[f"sawtooth-{teeth}"] = (f"{2**teeth} pieces from {2 * teeth} units", sawtooth(teeth), 0, 0, 1)
    for seed, widths in enumerate([(1, 8, 1), (1, 8, 8, 1), (1, 6, 6, 6, 1), (1, 5, 5, 5, 5, 1)], 70):
        made["line-" + "-".join(map(str, widths[1:-1]))] = ("on a line", drawn(*widths, seed=seed), 0, -4, 4)
    plain = {
        name: {"about": about, "slope": slope, "low": low, "high": high, "layers": layers}
        for name, (about, layers, slope, low, high) in made.items()
    }
    built = ("ring", "sawtooth")
    return {name: case if name.startswith(built) else at_its_median(case) for name, case in plain.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, case in cases().items():
        text = json.dumps({**case, "answers": answers(case)}, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(name, json.loads(text)["answers"])

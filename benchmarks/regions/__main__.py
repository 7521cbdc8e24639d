"""Runs a tool on the test bed: python -m benchmarks.regions [--tool splinescope|reference|relucent] [NAME...]

Prints a line per network and ends with 1 if an answer differs from the certified one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import reference

FOLDER = Path(__file__).parent / "networks"


def as_module(case: dict[str, Any]) -> Any:
    """The network as a torch module in float64."""
    import torch
    from torch import nn

    layers: list[nn.Module] = []
    for layer in case["layers"]:
        weight = torch.tensor(layer["weight"], dtype=torch.float64)
        linear = nn.Linear(*reversed(weight.shape), dtype=torch.float64)
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(torch.tensor(layer["bias"], dtype=torch.float64))
        layers += [linear, nn.LeakyReLU(case["slope"]) if case["slope"] else nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def splinescope(case: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    import splinescope as ss
    from splinescope_research import topology

    d = len(case["layers"][0]["weight"][0])
    view = ss.Slice.axes([0.0] * d, tuple(range(d)), case["low"], case["high"])
    tiling = ss.tessellate(as_module(case), view)
    slopes = tiling.slopes()[:, 0]
    found = {
        "tiles": tiling.count,
        "pieces": tiling.pieces().count,
        "lipschitz_2_squared": float((slopes**2).sum(1).max()),
        "lipschitz_inf": float(np.abs(slopes).sum(1).max()),
    }
    if d == 2:
        regions = topology(tiling)
        found |= {"unsafe_volume": float(regions.sizes[1]), "unsafe_betti": list(regions["above"])}
    return found


def relucent(case: dict[str, Any]) -> dict[str, Any]:
    """Counts alone, on boxes about the origin, from a point in general position; nothing where it refuses."""
    import relucent as tool
    import torch

    if case["low"] != -case["high"] or case["slope"]:
        return {}
    cells = tool.Complex(as_module(case))
    d = len(case["layers"][0]["weight"][0])
    start = case["high"] * torch.tensor([[0.2173, 0.1319]], dtype=torch.float64)[:, :d]
    try:
        cells.bfs(start, cube_radius=case["high"], cube_mode="intersect", nworkers=1, verbose=0)
    except ValueError as error:
        print(f"relucent: {error}", file=sys.stderr)
        return {}
    return {"tiles": len(cells)}


TOOLS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "splinescope": splinescope,
    "reference": reference.answers,
    "relucent": relucent,
}


def agrees(found: Any, certified: Any) -> bool:
    """Counts must be equal, rationals to rounding."""
    if isinstance(certified, str):
        return math.isclose(Fraction(found), Fraction(certified), rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == certified)


def judged(tool: str, name: str) -> tuple[dict[str, Any], list[str]]:
    """What a tool found for a network, and which answers differ from the certified ones."""
    case = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    found = TOOLS[tool](case)
    return found, [asked for asked, value in found.items() if not agrees(value, case["answers"][asked])]


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, default="splinescope")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks; all of them by default")
    given = parser.parse_args()
    unknown = set(given.names) - set(names())
    if unknown:
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(names())}.")
    if given.tool == "relucent" and find_spec("relucent") is None:
        parser.error("relucent is not installed: pip install relucent.")
    wrong = 0
    for name in given.names or names():
        start = time.process_time()
        found, differing = judged(given.tool, name)
        wrong += bool(differing)
        verdict = f"WRONG {', '.join(differing)}" if differing else "agrees" if found else "cannot"
        print(f"{name:20} {time.process_time() - start:8.3f} s  {verdict:10}  {json.dumps(found)}")
    print(f"{wrong} of {len(given.names or names())} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

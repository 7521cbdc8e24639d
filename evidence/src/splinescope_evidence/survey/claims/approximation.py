"""Self-similar compositions approximate x^2 at a rate that depth makes exponential, in one dimension and in two."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from splinescope.tiling import Slice, tessellate
from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import subplots

UNITS = 4
"""Of a layer of the square: three make the sawtooth, one carries the sum."""


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    depths = range(1, 4 if size == "quick" else 11)
    rows = []
    for depth in depths:
        if progress is not None:
            progress(depth / len(depths), f"depth {depth}")
        tiling = tessellate(_Square(depth), Slice.axes([0.0], (0,), 0.0, 1.0), progress=False)
        knots = np.sort(tiling.vertices[:, 0])
        middles = (knots[1:] + knots[:-1]) / 2
        with torch.no_grad():
            values = _Square(depth)(torch.from_numpy(np.concatenate([knots, middles]))[:, None])[:, 0].numpy()
        error = float(np.abs(values - np.concatenate([knots, middles]) ** 2).max())
        # No continuous function of N + 1 affine pieces is nearer to x^2 on [0, 1] than 1 / (8 (N + 1)^2).
        rows.append({"depth": depth, "units": UNITS * depth, "pieces": tiling.count, "error": error,
                     "one layer": 1 / (8 * (UNITS * depth + 1) ** 2)})  # fmt: skip
    off = max(abs(row["error"] * 4 ** (row["depth"] + 1) - 1) for row in rows)
    wrong = sum(row["pieces"] != 2 ** row["depth"] for row in rows)
    gain = rows[-1]["one layer"] / rows[-1]["error"]
    plane = []
    for depth in range(1, 3 if size == "quick" else 6):
        tiling = tessellate(_Product(depth), Slice.axes([0.0, 0.0], (0, 1), 0.0, 1.0), progress=False)
        side = torch.arange(2 ** (depth + 2) + 1, dtype=torch.float64) / 2 ** (depth + 2)
        grid = torch.cartesian_prod(side, side)
        with torch.no_grad():
            error = float((_Product(depth)(grid)[:, 0] - grid[:, 0] * grid[:, 1]).abs().max())
        plane.append({"depth": depth, "units": 3 * UNITS * depth, "tiles": tiling.count, "error": error})
    off_plane = max(abs(row["error"] * 4 ** (row["depth"] + 1) / 2 - 1) for row in plane)
    return Outcome(
        {"rows": rows, "plane": plane},
        (
            judged(
                "Self-similar tilings give approximation rates exponential in depth: composed sawtooths approximate "
                "x^2 with an error of 4^-(L+1) behind L layers of four units.",
                f"depths 1 to {rows[-1]['depth']}: error times 4^(L+1) minus 1 at most {off:.1e}; depths without 2^L "
                f"pieces: {wrong}; at depth {rows[-1]['depth']} ({rows[-1]['units']} units) the error is "
                f"{rows[-1]['error']:.2e}, where no single layer of as many units is below {rows[-1]['one layer']:.2e} "
                f"(factor {gain:.0f})",
                holds=[
                    Check("error times 4^(L+1) minus 1, largest", off, "<", 1e-6, "an identity"),
                    Check("depths without 2^L pieces", float(wrong), "<", 0.5, "a count"),
                    Check("one layer's best error over it, at the largest depth", gain, ">", 10.0,
                        "a rate, not a factor"),
                ],
            ),
            judged(
                "The rate stays in two dimensions: by three squares, x y is approximated with an error of 2 4^-(L+1).",
                f"depths 1 to {plane[-1]['depth']}: error times 4^(L+1)/2 minus 1 at most {off_plane:.1e} "
                f"on a grid that "
                f"has the worst points; {plane[-1]['tiles']} tiles of {plane[-1]['units']} units at depth "
                f"{plane[-1]['depth']}, error {plane[-1]['error']:.2e}",
                holds=[Check("error times 4^(L+1)/2 minus 1, largest", off_plane, "<", 1e-6, "an identity")],
            ),
        ),
    )  # fmt: skip


class _Square(nn.Module):
    """`x -> x - sum_s g_s(x) / 4^s` on [0, 1], with g_s the sawtooth composed s times: x^2 at multiples of 2^-L.

    Reference: Yarotsky, "Error bounds for approximations with deep ReLU networks", 2017.
    """

    def __init__(self, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for level in range(depth):
            linear = nn.Linear(1 if level == 0 else UNITS, UNITS, dtype=torch.float64)
            with torch.no_grad():
                linear.bias.copy_(torch.tensor([0.0, -0.5, -1.0, 0.0]))
                tooth = torch.tensor([2.0, -4.0, 2.0, 0.0])
                rows = (
                    torch.tensor([[1.0]] * 4) if level == 0 else torch.stack([tooth, tooth, tooth, -tooth / 4**level])
                )
                if level:
                    rows[3, 3] = 1.0
                linear.weight.copy_(rows)
            layers += [linear, nn.ReLU()]
        last = nn.Linear(UNITS, 1, dtype=torch.float64)
        with torch.no_grad():
            last.weight.copy_(torch.tensor([[-2.0, 4.0, -2.0, 0.0]]) / 4**depth)
            last.weight[0, 3] = 1.0
            last.bias.zero_()
        self.layers = nn.Sequential(*layers, last)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


class _Product(nn.Module):
    """`x y = 2 ((x + y)/2)^2 - x^2/2 - y^2/2`, each square by a network."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.square = _Square(depth)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        first, second = x[:, :1], x[:, 1:]
        return 2 * self.square((first + second) / 2) - self.square(first) / 2 - self.square(second) / 2


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    rows, plane = numbers["rows"], numbers["plane"]
    left.semilogy([row["units"] for row in rows], [row["error"] for row in rows], "o-", label="composed sawtooths")
    left.semilogy([row["units"] for row in rows], [row["one layer"] for row in rows], "--", color="0.4",
                  label="one layer, best possible")  # fmt: skip
    left.set(xlabel="units", ylabel="largest error, $x^2$ on [0, 1]")
    left.legend(frameon=False)
    right.semilogy([row["depth"] for row in plane], [row["error"] for row in plane], "o-", color="#d55e00",
                   label="error")  # fmt: skip
    right.semilogy([row["depth"] for row in plane], [1 / row["tiles"] for row in plane], "v-", color="#009e73",
                   label="one over the number of tiles")  # fmt: skip
    right.set(xlabel="layers", ylabel="$x y$ on the unit square", xticks=[row["depth"] for row in plane])
    right.legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    "Self-similar compositions and approximation rates",
    run,
    draw,
    place="the part on self-similarity and depth; its open question on several dimensions",
)

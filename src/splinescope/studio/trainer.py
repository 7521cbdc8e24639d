"""`Trainer`: a recipe's network in training, and what the page shows of it at a moment."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..network.watching.intercept import Hooked
from ..plot.frame import tiling_frame
from ..support.checks import check_index
from ..support.errors import InputError
from ..tiling import Slice, Tiling, tessellate
from .models import NOT_AFFINE, Layer, make_network, make_set
from .recipe import SMOOTH, Recipe, check_real

REACH = 2.6
"""Half the side of the square that the playground shows."""
NEAR = 0.15
"""Radius of the discs in which tiles are counted: local complexity on the plane, exact."""
MOST_TILES = 60_000
SIDE = 16
"""Pixels of a unit's picture."""
_ASSURED = ("tolerance", "bound", "deviation", "basis")
SHOWN = ("class", "slope", "depth", "area", "value")


class Trainer:
    """One network, its data and its optimizer.

    A step is one batch. Loss and accuracy are those of the network itself; tiles are those of the network in
    evaluation, with the statistics of norms as the recipe says. Everything is drawn from the recipe's seed,
    and all is float64.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.x, self.y = make_set(recipe)
        self.test = make_set(recipe, seed=recipe.seed + 1_000_003) if recipe.data != "own" else None
        self.classes = int(self.y.max()) + 1
        self.generator = torch.Generator().manual_seed(recipe.seed)
        self.model = make_network(recipe, self.classes, self.x)
        self.optimizer = _optimizer(recipe, self.model)
        self.steps = 0
        self.dead = False  # whether it is constant on all data: a rate that was too large has killed it
        self._looks = torch.Generator().manual_seed(recipe.seed + 1)  # looking must not change what training draws
        self.hold_statistics()
        self._view = Slice.axes([0.0, 0.0], (0, 1), -REACH, REACH)
        self._tolerance = recipe.tolerance if recipe.activation in SMOOTH else None
        self.model.eval()

    # ---- training

    def train(self, steps: int) -> None:
        """Some steps of the optimizer."""
        self.model.train()
        for _ in range(steps):
            rows = torch.randperm(len(self.x), generator=self.generator)[: self.recipe.batch]
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(self.x[rows]), self.y[rows])
            if not torch.isfinite(loss):
                raise InputError(
                    "training has diverged: the loss is not finite. Choose a smaller rate and start again."
                )
            loss.backward()
            self.optimizer.step()
            self.steps += 1

    def hold_statistics(self) -> dict[str, float | None]:
        """Give norms the statistics that the picture uses; loss and accuracy come of the same pass."""
        self.model.train()
        with torch.no_grad():
            test = None if self.test is None or self.recipe.norm not in NOT_AFFINE else self.model(self.test[0])
            outputs = self.model(self.x)
            self.dead = self.steps > 0 and bool((outputs == outputs[0]).all())  # no gradient but that of offsets
            measured: dict[str, float | None] = {
                "loss": float(F.cross_entropy(outputs, self.y)),
                "accuracy": float((outputs.argmax(1) == self.y).double().mean()),
            }
            if self.recipe.norm == "batch" and self.recipe.statistics == "batch":
                rows = torch.randperm(len(self.x), generator=self._looks)[: self.recipe.batch]
                self.model(self.x[rows])
            self.model.eval()
            measured["test"] = None
            if self.test is not None:
                test = self.model(self.test[0]) if test is None else test
                measured["test"] = float((test.argmax(1) == self.test[1]).double().mean())
        return measured

    # ---- by hand

    def move_point(self, index: Any, x: Any, y: Any) -> None:
        """Put a data point elsewhere."""
        place = [check_real(each, "the point") for each in (x, y)]
        self.x[check_index(index, "point", len(self.x))] = torch.from_numpy(np.clip(place, -REACH, REACH))

    def move_fold(self, layer: Any, unit: Any, x: Any, y: Any, knot: Any = 0.0) -> None:
        """Shift a unit's offset so that its fold (of a smooth one: that of `knot`) passes through a point."""
        block, number = self._unit(layer, unit)
        offset = block.offset()
        if offset is None:
            raise InputError(f"{self.recipe.norm} norm has no offset: its folds are moved by weights alone.")
        *place, level = (check_real(each, "the place") for each in (x, y, knot))
        point = torch.tensor([place], dtype=torch.float64)
        seen: list[Tensor] = []
        keep = Hooked(before=[(block.act, lambda _module, inputs: seen.append(inputs[0]))])
        with keep, torch.no_grad():
            self.model.eval()(point)
        with torch.no_grad():
            offset[number] -= seen[0][0, number] - level

    def set_weight(self, layer: Any, unit: Any, source: Any, value: Any) -> None:
        """Set one weight of a unit (`source` -1: its offset)."""
        block, number = self._unit(layer, unit)
        size = float(np.clip(check_real(value, "a weight"), -100, 100))
        with torch.no_grad():
            if source == -1:
                offset = block.offset()
                if offset is not None:
                    offset[number] = size
                return
            weight = _raw_weight(block)
            weight[number, check_index(source, "source", weight.shape[1])] = size

    def unit_weights(self, layer: Any, unit: Any) -> dict[str, Any]:
        """What the page's sliders show of a unit."""
        block, number = self._unit(layer, unit)
        offset = block.offset()
        size = None if offset is None else offset[number].item()
        return {"layer": layer, "unit": unit, "weights": _raw_weight(block)[number].tolist(), "offset": size}

    def _unit(self, layer: Any, unit: Any) -> tuple[Layer, int]:
        block = self.model[check_index(layer, "layer", self.recipe.depth)]
        assert isinstance(block, Layer)
        return block, check_index(unit, "unit", self.recipe.width)

    # ---- what is seen

    def tile(self) -> Tiling:
        """The tiling of the square, by the network as it is in evaluation."""
        return tessellate(
            self.model, self._view, tolerance=self._tolerance, max_tiles=MOST_TILES, threads=1, progress=False
        )

    def frame(
        self, selected: tuple[int, int] | None = None, shown: Sequence[str] = SHOWN, *, near: bool = True
    ) -> dict[str, Any]:
        """What the page draws at this moment; `shown` are the quantities of tiles that it needs, `near` counts tiles
        near data and boundary, too."""
        measured = self.hold_statistics()
        tiling = self.tile()
        near_to = tiling.approximation
        frame = tiling_frame(tiling, title="Playground", only=shown)
        measures = {**measured, "tiles": tiling.count}
        if near:
            measures |= self._tiles_near(tiling, frame["boundary"])
        return {
            **frame,
            "corner_cuts": tiling.corner_labels,
            **_cuts(tiling),
            "points": self.x.numpy().astype(np.float32),
            "classes": self.y.numpy().astype(np.uint8),
            "held": self.recipe.norm in NOT_AFFINE,
            "dead": self.dead,
            **(self._diagram() if near else {}),
            "within": None if near_to is None else {name: getattr(near_to, name) for name in _ASSURED},
            "selected": None if selected is None else self.unit_weights(*selected),
            "step": self.steps,
            "measures": measures,
        }

    def _diagram(self) -> dict[str, np.ndarray]:
        """Of each unit and output its values over the square, 127 is zero and the largest is one end; all weights."""
        ticks = REACH * ((2 * torch.arange(SIDE, dtype=torch.float64) + 1) / SIDE - 1)
        h = torch.cartesian_prod(-ticks, ticks).flip(1)  # rows from the top
        sheets, wires = [], []
        with torch.no_grad():
            for part in self.model.eval():
                layer = part if isinstance(part, Layer) else None
                y: Tensor = part(h) if layer is None else layer.act(layer.norm(layer.linear(h)))
                h = y + h if layer is not None and layer.skip else y
                sheets.append(127 + 127 * y / y.abs().amax(0).clamp(min=1e-12))
                weight: Any = (part if layer is None else layer.linear).weight
                wires.append(weight.detach().ravel())
        pictures = torch.cat(sheets, 1).T.round().to(torch.uint8)
        return {"sheets": pictures.contiguous().numpy(), "wires": torch.cat(wires).float().numpy()}

    def _tiles_near(self, tiling: Tiling, boundary: np.ndarray) -> dict[str, float | None]:
        """Mean number of tiles that meet a disc about data points, and about points of the decision boundary."""
        found: dict[str, float | None] = {"near boundary": None}
        found["near data"] = float(tiling.counts_near(self.x.numpy(), NEAR).mean())
        if len(boundary):
            middles = boundary.mean(1)
            chosen = middles[np.linspace(0, len(middles) - 1, min(100, len(middles))).astype(int)]
            found["near boundary"] = float(tiling.counts_near(chosen, NEAR).mean())
        return found


def _cuts(tiling: Tiling) -> dict[str, np.ndarray]:
    """Of each label of a wall, the layer and the unit that folds there, and the pre-activation at which it does."""
    sizes = [site.cuts for site in tiling.sites]
    layers = np.repeat(np.arange(len(sizes)), sizes)
    units = np.concatenate([np.arange(size) for size in sizes])
    knots = np.zeros(len(units))
    if tiling.approximation is not None:
        units, knots = tiling.approximation.elements, np.nan_to_num(tiling.approximation.knots)
    return {
        "cut_layers": layers.astype(np.uint8),
        "cut_units": units.astype(np.uint16),
        "cut_knots": knots.astype(np.float32),
    }


def _raw_weight(block: Layer) -> Tensor:
    """The matrix that is set by hand; under weight norm the direction, whose length does not matter."""
    linear: Any = block.linear
    raw: Tensor = linear.parametrizations.weight.original1 if hasattr(linear, "parametrizations") else linear.weight
    return raw


def _optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    if recipe.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if recipe.optimizer == "adam" else torch.optim.AdamW
        return kind(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    momentum = 0.9 if recipe.optimizer == "momentum" else 0.0
    return torch.optim.SGD(model.parameters(), lr=recipe.rate, momentum=momentum, weight_decay=recipe.decay)

"""A program cut at its folds: what runs between two folds, on blocks of rows or on single columns.

A segment starts with a fold (the first one with the input), runs the affine steps up to the next fold, and ends
with the values that are still needed, flattened to rows, and the next fold's pre-activations. It is affine in the
fold's output, so it is also known by its columns: the effect of one unit of the fold's output on each kept value.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ...network.program import Affine, Fold, Product, Program, Tournament, live_after

CUTS = ""
"""Key of the next fold's pre-activations among a segment's rows (no value has an empty name)."""

_DENSE_FROM = 0.25  # columns with a larger share of non-zeros are kept dense
_COLUMN_BLOCK = 64  # columns computed at a time
_COLUMN_SCALE = 2.0**40
_SMALL = 1 << 12  # numbers of a matrix whose products cost less than calling a BLAS
_ALL_AT_ONCE = 128  # columns of so few units are cheaper to know than to ask for


@dataclass
class Columns:
    """Columns of the map from a fold's output to one kept value, filled as they are asked for.

    `slots[e]` is the row that holds element e, or -1. Exactly one of `dense` and the CSR triple is in use.
    """

    size: int
    slots: np.ndarray
    dense: np.ndarray | None = None
    starts: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    indices: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    entries: np.ndarray = field(default_factory=lambda: np.zeros(0))
    count: int = 0

    def append(self, elements: np.ndarray, block: np.ndarray) -> None:
        """Store `block[i]` as the column of `elements[i]`. Arrays are replaced, never written where others read."""
        if self.count == 0 and np.count_nonzero(block) > _DENSE_FROM * block.size:
            self.dense = np.empty((0, self.size))
        if self.dense is not None:
            if self.count + len(block) > len(self.dense):
                grown = np.empty((max(2 * len(self.dense), self.count + len(block)), self.size))
                grown[: self.count] = self.dense[: self.count]
                self.dense = grown
            self.dense[self.count : self.count + len(block)] = block
        else:
            rows, where = np.nonzero(block)
            ends = np.cumsum(np.bincount(rows, minlength=len(block))) + self.starts[-1]
            self.starts = np.concatenate([self.starts, ends])
            self.indices = np.concatenate([self.indices, where.astype(np.int32)])
            self.entries = np.concatenate([self.entries, block[rows, where]])
        slots = self.slots.copy()
        slots[elements] = np.arange(self.count, self.count + len(elements), dtype=np.int32)
        self.count += len(elements)
        self.slots = slots


class Segment:
    """One stretch of a program between folds; see the module's text.

    Attributes:
        fold: The fold it starts with; None for the first segment.
        next_fold: The fold it ends at; None for the last segment.
        tournaments: Tournaments that end in it.
        kept: Names of the values it hands on, without the pre-activations.
        aliases: Names whose rows are the very rows of the pre-activations (ReLU cuts at its own input).
        bent: Keys (names, or CUTS) on which the fold's output has an effect.
        needed: Per step, the names still needed once it has run.
        shapes, all_shapes: Of the kept values, and of all that are live in it.
    """

    def __init__(
        self,
        fold: Fold | None,
        steps: list[Affine],
        tournaments: list[Tournament],
        next_fold: Fold | None,
        kept: Iterable[str],
    ) -> None:
        self.fold = fold
        self.steps = steps
        self.tournaments = tournaments
        self.next_fold = next_fold
        self.kept = sorted(kept)
        self.aliases: set[str] = set()
        self.shapes: dict[str, tuple[int, ...]] = {}
        reached = {fold.output} if fold is not None else set()
        for step in steps:
            if reached & set(step.inputs):
                reached.add(step.output)
        self.bent = {name for name in self.kept if name in reached}
        if next_fold is not None and reached & set(next_fold.inputs):
            self.bent.add(CUTS)
        self.needed = live_after(steps, self.kept)
        self.all_shapes: dict[str, tuple[int, ...]] = {}
        self._still: dict[str, Tensor] = {}
        self._below: np.ndarray | None = None
        self._columns: dict[str, Columns] = {}
        self._known: np.ndarray | None = None  # bits of the units whose columns are there
        self._lock = threading.Lock()

    @cached_property
    def only_product(self) -> Product | None:
        """The matrix product that is all it does, on the fold's output or the input, and all it hands on; or None."""
        if len(self.steps) != 1 or len(self.keys) != 1 or self.tournaments:
            return None
        step = self.steps[0]
        product, given = step.run, step.inputs[0]
        flat = len(self.all_shapes[step.output]) == len(self.all_shapes[given]) == 1
        handed = self.kept == [step.output] and (self.next_fold is None or self.aliases == {step.output})
        direct = self.fold is None or (given == self.fold.output and len(self.fold.inputs) == 1)
        if isinstance(product, Product) and flat and handed and direct and step.output != given:
            return product
        return None

    @cached_property
    def small(self) -> tuple[bool, np.ndarray, np.ndarray] | None:
        """If it is a product of its input, or of ReLUs (True), that is better off without a BLAS: for `multiply`."""
        product, fold = self.only_product, self.fold
        if product is None or product.weight.numel() > _SMALL:
            return None
        if fold is not None and not (fold.site.op == "relu" and fold.gains.size == math.prod(fold.site.shape)):
            return None
        weight = np.ascontiguousarray(product.weight.numpy()[:, : product.weight.shape[1] - product.missing].T)
        return fold is not None, weight, np.zeros(weight.shape[1]) if product.bias is None else product.bias.numpy()

    @property
    def keys(self) -> list[str]:
        """Keys of the rows it produces: CUTS if a fold follows, and each kept value that is not an alias of it."""
        names = [name for name in self.kept if name not in self.aliases]
        return names if self.next_fold is None else [CUTS, *names]

    def width(self, key: str) -> int:
        """How many numbers a row of this key has."""
        if key == CUTS:
            assert self.next_fold is not None
            return self.next_fold.site.units
        return math.prod(self.shapes[key])

    def learn(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Note shapes, and which of the next fold's inputs are its pre-activations, by one row; what it hands on."""
        values = dict(given)
        steps: list[Affine | Fold] = [*self.steps] if self.fold is None else [self.fold, *self.steps]
        for step in steps:
            values[step.output] = step.run(*(values[name] for name in step.inputs))
        self.all_shapes = {name: tuple(value.shape[1:]) for name, value in values.items()}
        self.shapes = {name: self.all_shapes[name] for name in self.kept}
        if self.next_fold is not None:
            cuts = self.next_fold.cuts(*(values[name] for name in self.next_fold.inputs))
            for name in self.next_fold.inputs:
                same = values[name].data_ptr() == cuts.data_ptr() and values[name].numel() == cuts.numel()
                if same and name in self.kept:
                    self.aliases.add(name)
        return {name: values[name] for name in self.kept}

    @property
    def stores_cuts(self) -> bool:
        """Whether a basis holds the next fold's pre-activations; else they are numbers of the fold's one input."""
        return self.next_fold is not None and self.next_fold.at is None

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Each kept value with the key under which a basis holds it."""
        return [(name, CUTS if self.stores_cuts and name in self.aliases else name) for name in self.kept]

    @property
    def basis_width(self) -> int:
        """How many numbers a whole basis row has."""
        own = sum(math.prod(self.shapes[name]) for name, key in self.stored if key != CUTS)
        return own + (self.width(CUTS) if self.stores_cuts else 0)

    @property
    def widest(self) -> int:
        """How many numbers the largest value in it has."""
        return max(math.prod(shape) for shape in self.all_shapes.values())

    def still(self, step: Affine) -> Tensor:
        """`[1, ...]` what a step makes of zeros: its constant part."""
        if step.output not in self._still:
            zeros = (torch.zeros(1, *self.all_shapes[name], dtype=torch.float64) for name in step.inputs)
            self._still[step.output] = step.run(*zeros)
        return self._still[step.output]

    def slopes_below(self) -> np.ndarray:
        """`[size]` slopes of the next fold below all of its hinges, where it acts on each number by itself."""
        fold = self.next_fold
        assert fold is not None
        assert fold.at is not None
        if self._below is None:
            far = 2.0 ** np.ceil(np.log2(_COLUMN_SCALE * (1.0 + np.abs(fold.at).max(initial=0.0))))
            places = torch.full((2, *self.shapes[fold.inputs[0]]), -far, dtype=torch.float64)
            places[1] *= 2
            values = fold.run(places).reshape(2, -1)
            self._below = ((values[0] - values[1]) / far).numpy()
        return self._below

    @cached_property
    def entry(self) -> str:
        """Name of the input of its fold, or of its first step if it has none."""
        return (self.steps[0] if self.fold is None else self.fold).inputs[0]

    def start(self, values: Mapping[str, Tensor]) -> Tensor:
        """What its only product is taken of: the output of its fold, or the input."""
        return values[self.entry] if self.fold is None else self.fold.run(values[self.entry])

    def run(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The rows `[N, size]` of every key, from the shaped values live at the segment's start."""
        live = dict(values)
        if self.fold is not None:
            live[self.fold.output] = self.fold.run(*(live[name] for name in self.fold.inputs))
        return self.affine_part(live)

    def affine_part(self, live: dict[str, Tensor]) -> dict[str, Tensor]:
        for step in self.steps:
            live[step.output] = step.run(*(live[name] for name in step.inputs))
        rows = {name: live[name].reshape(len(live[name]), -1) for name in self.kept if name not in self.aliases}
        if self.next_fold is not None:
            rows[CUTS] = self.next_fold.cuts(*(live[name] for name in self.next_fold.inputs))
        return rows

    def columns(self, inputs: Mapping[str, tuple[int, ...]], needed: np.ndarray) -> dict[str, Columns]:
        """Columns of every bent key, with those filled that belong to at least the units whose bits are set.

        `inputs` are the shapes of the values live at the segment's start, `needed` words of 64 units.
        """
        assert self.fold is not None
        # threads share a program: two of them would append the same columns
        with self._lock:
            known = self._known
            if known is None or (needed & ~known).any():
                self._fill_columns(inputs, needed)
                self._known = needed.copy() if known is None else known | needed
            return dict(self._columns)

    def _fill_columns(self, inputs: Mapping[str, tuple[int, ...]], needed: np.ndarray) -> None:
        assert self.fold is not None
        shape = self.fold.site.shape
        total = math.prod(shape)
        first = next(iter(self._columns.values()), None)
        if first is not None and first.count == total:
            return
        elements = np.arange(total) if total <= _ALL_AT_ONCE else self.fold.elements[units_in(needed)]
        missing = np.unique(elements if first is None else elements[first.slots[elements] < 0])
        for start in range(0, len(missing), _COLUMN_BLOCK):
            block = missing[start : start + _COLUMN_BLOCK]
            for key, rows in self._unit_columns(inputs, shape, block).items():
                store = self._columns.setdefault(key, Columns(rows.shape[1], np.full(total, -1, np.int32)))
                store.append(block, rows)

    def _unit_columns(
        self, inputs: Mapping[str, tuple[int, ...]], shape: tuple[int, ...], elements: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The linear part of the segment on unit vectors e of the fold's output: (f(c e) - f(0)) / c.

        f is affine, so any c will do; a large power of two keeps the constant part of f (biases) from costing
        the columns any digits, and what a unit does not reach stays exactly zero.
        """
        assert self.fold is not None
        product = self.only_product
        if product is not None:  # whose columns need no product
            return {key: product.weight.t()[torch.from_numpy(elements)].numpy() for key in self.keys}
        n = len(elements)
        value = torch.zeros(n + 1, int(np.prod(shape)), dtype=torch.float64)
        value[torch.arange(n), torch.from_numpy(elements)] = _COLUMN_SCALE
        live = {name: torch.zeros(n + 1, *s, dtype=torch.float64) for name, s in inputs.items()}
        live[self.fold.output] = value.reshape(n + 1, *shape)
        rows = self.affine_part(live)
        return {key: ((rows[key][:n] - rows[key][n]) / _COLUMN_SCALE).numpy() for key in self.keys if key in self.bent}


def units_in(words: np.ndarray) -> np.ndarray:
    """Numbers of the units whose bits are set in words of 64."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def cut_into_segments(program: Program, keep_output: bool) -> list[Segment]:
    """The segments of a program in order, which know their shapes; the last one keeps the output's rows if asked to."""
    keep = {program.output} if keep_output else set()
    needed_after = live_after(program.steps, keep)
    segments: list[Segment] = []
    fold: Fold | None = None
    steps: list[Affine] = []
    tournaments: list[Tournament] = []
    available = {program.input}
    for i, step in enumerate(program.steps):
        if isinstance(step, Affine):
            steps.append(step)
            available.add(step.output)
        elif isinstance(step, Tournament):
            tournaments.append(step)
        else:
            needed = (needed_after[i] | set(step.inputs)) & available
            needed |= {name for tournament in tournaments for name in tournament.inputs}
            segments.append(Segment(fold, steps, tournaments, step, needed))
            fold, steps, tournaments = step, [], []
            available.add(step.output)
    last = keep | {name for tournament in tournaments for name in tournament.inputs}
    segments.append(Segment(fold, steps, tournaments, None, last))
    live = {program.input: torch.zeros(1, *program.input_shape, dtype=torch.float64)}
    with torch.no_grad():
        for segment in segments:
            live = segment.learn(live)
    return segments

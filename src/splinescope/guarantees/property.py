"""`Property`: what a network should satisfy, by the linear constraints that a counterexample meets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.checks import as_float64_array, check_index
from ..support.display import Shown
from ..support.errors import InputError

if TYPE_CHECKING:
    from .vnnlib import Network


@dataclass(frozen=True, eq=False, repr=False)
class Clause(Shown):
    """A conjunction: inputs x with outputs y are unsafe where `outputs @ y + inputs @ x <= ends` in every row."""

    outputs: np.ndarray  # [m, C]
    inputs: np.ndarray  # [m, D]
    ends: np.ndarray  # [m]
    strict: np.ndarray  # [m] whether a row means <

    def __len__(self) -> int:
        return len(self.ends)

    def part(self, chosen: np.ndarray) -> Clause:
        """Some of its rows."""
        return Clause(self.outputs[chosen], self.inputs[chosen], self.ends[chosen], self.strict[chosen])

    @property
    def equality(self) -> tuple[int, int] | None:
        """The two rows that together say that a form is equal to a number, if there is one such form."""
        rows = np.column_stack([self.outputs, self.inputs, self.ends])
        both = combinations(np.flatnonzero(~self.strict).tolist(), 2)
        pairs = [(i, j) for i, j in both if (rows[i] == -rows[j]).all()]
        return pairs[0] if len(pairs) == 1 else None

    def box(self) -> tuple[np.ndarray, np.ndarray, Clause]:
        """Lower and upper ends `[D]` of what its rows about one input say (infinite: nothing), and the other rows.

        Strict rows are among the other ones too: the box has its ends, where they are not met.
        """
        low, high = np.full(self.inputs.shape[1], -np.inf), np.full(self.inputs.shape[1], np.inf)
        single = ~self.outputs.any(1) & (np.count_nonzero(self.inputs, axis=1) == 1)
        for row, end in zip(self.inputs[single], self.ends[single], strict=True):
            i = int(np.flatnonzero(row)[0])
            if row[i] > 0:
                high[i] = min(high[i], end / row[i])
            else:
                low[i] = max(low[i], end / row[i])
        return low, high, self.part(~single | self.strict)

    def misses(self, low: np.ndarray, high: np.ndarray) -> bool:
        """Whether no input of a box meets it, by its ends and the strict rows about one input that `box` leaves."""
        single = self.strict & ~self.outputs.any(1) & (np.count_nonzero(self.inputs, axis=1) == 1)
        rows = self.inputs[single]
        at = np.argmax(rows != 0, axis=1)
        ends = self.ends[single] / rows[np.arange(len(at)), at]
        return bool((low > high).any() or ((low[at] == high[at]) & (ends == low[at])).any())


Make = Callable[[int, int], tuple[Clause, ...]]
"""Clauses of a property, once the numbers of inputs and outputs are known."""


@dataclass(frozen=True, eq=False, repr=False)
class Property(Shown):
    """What should hold for all inputs of a set, told by what must not happen.

    The unsafe set is a disjunction of conjunctions ("clauses") of linear constraints on flattened outputs and inputs;
    the property holds if it is empty. `read_vnnlib` reads one from a file; `p & q` holds where both hold.

    Attributes:
        clauses: The conjunctions, or a function that makes them from the numbers of inputs and outputs.
        name: What messages call it.
        networks: Networks that a file declares, one unless it is about several.
        slope: For `monotone`: (input, output, sign).

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        >>> bounded = ss.guarantees.Property.between(0, -10.0, 10.0)
        >>> ss.verify(net, bounded, over=(-1.0, 1.0)).holds
        True
    """

    clauses: tuple[Clause, ...] | Make
    name: str = "the property"
    networks: tuple[Network, ...] = ()
    slope: tuple[int, int, int] | None = None

    def __repr__(self) -> str:
        if callable(self.clauses):
            return f"Property({self.name})"
        n = len(self.clauses)
        sizes = f", {self.clauses[0].inputs.shape[1]} inputs, {self.clauses[0].outputs.shape[1]} outputs" if n else ""
        return f"Property({n} clause{'s' * (n != 1)}{sizes})"

    def sized(self, inputs: int, outputs: int) -> tuple[Clause, ...]:
        """Its clauses for a network of that many inputs and outputs, which they must fit."""
        clauses = self.clauses(inputs, outputs) if callable(self.clauses) else self.clauses
        for clause in clauses:
            there = (clause.inputs.shape[1], clause.outputs.shape[1])
            if there != (inputs, outputs):
                raise InputError(
                    f"{self.name} is about {there[0]} inputs and {there[1]} outputs, the network has {inputs} and "
                    f"{outputs}."
                )
        return clauses

    def tensors(self, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        """Flat inputs and outputs of all its networks, under the names that a VNN-LIB 2 file gives them."""
        found: dict[str, np.ndarray] = {}
        for which, values in enumerate((x, y)):
            start = 0
            for network in self.networks:
                if network.tensors is not None:
                    shape = network.outputs if which else network.inputs
                    size = int(np.prod(shape))
                    found[network.tensors[which]] = values[start : start + size].reshape(shape)
                    start += size
        return found

    def __and__(self, other: Property) -> Property:
        if not isinstance(other, Property):
            return NotImplemented
        if self.slope or other.slope:
            raise InputError("a property of slopes cannot be joined with another one: verify them one by one.")

        def make(inputs: int, outputs: int) -> tuple[Clause, ...]:
            return (*self.sized(inputs, outputs), *other.sized(inputs, outputs))

        return Property(make, name=f"{self.name} and {other.name}")

    @classmethod
    def never(cls, rows: Any, ends: Any, *, x_rows: Any = None, strict: bool = False) -> Property:
        """No input has outputs with `rows @ y + x_rows @ x <= ends` in every row (`<` if strict: equality is safe).

        `rows` is `[m, C]`, or `[C]` for one constraint, `ends` `[m]` or one number, `x_rows` `[m, D]`.
        """
        matrix = np.atleast_2d(as_float64_array(rows, "rows"))
        limits = as_float64_array(ends, "ends").reshape(-1)
        if len(limits) not in (1, len(matrix)):
            raise InputError(f"ends must be one number or {len(matrix)}, got {len(limits)}.")
        limits = np.broadcast_to(limits, len(matrix))
        other = None if x_rows is None else np.atleast_2d(as_float64_array(x_rows, "x_rows"))
        if other is not None and len(other) != len(matrix):
            raise InputError(f"x_rows must have as many rows as rows, {len(matrix)}, got {len(other)}.")
        which = np.full(len(matrix), bool(strict))

        def make(inputs: int, outputs: int) -> tuple[Clause, ...]:
            return (Clause(matrix, np.zeros((len(matrix), inputs)) if other is None else other, limits, which),)

        return cls(make, name="never")

    @classmethod
    def class_wins(cls, winner: int) -> Property:
        """Output `winner` is larger than every other one."""

        def make(inputs: int, outputs: int) -> tuple[Clause, ...]:
            check_index(winner, "winner", outputs)
            eye = np.eye(outputs)
            return tuple(_single(eye[winner] - eye[j], 0.0, inputs) for j in range(outputs) if j != winner)

        return cls(make, name=f"class {winner} wins")

    @classmethod
    def between(cls, output: int, low: float = -np.inf, high: float = np.inf) -> Property:
        """Output number `output` is at least `low` and at most `high`."""

        def make(inputs: int, outputs: int) -> tuple[Clause, ...]:
            row = np.eye(outputs)[check_index(output, "output", outputs)]
            below = [_single(row, low, inputs, strict=True)] if np.isfinite(low) else []
            above = [_single(-row, -high, inputs, strict=True)] if np.isfinite(high) else []
            return (*below, *above)

        if not all(isinstance(end, Real) for end in (low, high)) or not low <= high:
            raise InputError(f"low and high must be numbers, low at most high, got {low!r} and {high!r}.")
        return cls(make, name=f"output {output} between {low:g} and {high:g}")

    @classmethod
    def monotone(cls, index: int, *, output: int = 0, increasing: bool = True) -> Property:
        """Output number `output` never falls (never rises, if not increasing) as input number `index` grows."""
        way = "increasing" if increasing else "decreasing"
        return cls((), name=f"output {output} {way} in input {index}", slope=(index, output, 1 if increasing else -1))


def _single(row: np.ndarray, end: float, inputs: int, strict: bool = False) -> Clause:
    return Clause(row[None], np.zeros((1, inputs)), np.array([float(end)]), np.array([strict]))

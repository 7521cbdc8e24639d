"""Files in VNN-LIB: declarations and assertions as a disjunction of conjunctions of linear constraints.

Version 1 (`X_0`, `Y_1`) and what of version 2 is linear: `declare-network` with inputs and outputs of any shape,
`X[0,1]`, several networks. A file asserts what makes a counterexample, so its assertions together are the unsafe set.
Numbers are read as fractions. Errors name the line.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from os import PathLike
from pathlib import Path
from typing import NoReturn

import numpy as np

from ..support.checks import check_file
from ..support.errors import FileFormatError
from .property import Clause, Property

_MOST_CLAUSES = 20_000
_MOST_DEPTH = 200
_MOST_DIGITS = 4000
_SMALLEST, _LARGEST = Fraction(10) ** -300, Fraction(10) ** 300
_TOKEN = re.compile(r"[()]|\[[^\]]*\]|[^\s()\[\]]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?$", re.ASCII)
_NAME = re.compile(r"([^\W\d]\w*)_(\d+)$", re.ASCII)


@dataclass(frozen=True)
class Network:
    """One network that a file of version 2 declares (of version 1: the only one)."""

    name: str
    inputs: tuple[int, ...]  # its shape
    outputs: tuple[int, ...]
    equal_to: str | None = None  # name of the network that it is declared to be the same as
    tensors: tuple[str, str] | None = None  # what the file calls its input and its output (version 2)


@dataclass
class Node:
    """A word, or a list (which has none), with the line it begins on."""

    line: int
    word: str = ""
    parts: list[Node] = field(default_factory=list)


@dataclass
class Linear:
    """`sum of coefficients[v] * v + constant`."""

    coefficients: dict[int, Fraction] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def plus(self, other: Linear, times: Fraction) -> Linear:
        total = dict(self.coefficients)
        for v, c in other.coefficients.items():
            total[v] = total.get(v, Fraction(0)) + times * c
        return Linear({v: c for v, c in total.items() if c}, self.constant + times * other.constant)


Atom = tuple[Linear, bool]
"""`linear <= 0`, or `< 0` if the second is True."""


def read_vnnlib(path: str | PathLike[str]) -> Property:
    """The property of a VNN-LIB file (`.vnnlib`, or compressed, `.vnnlib.gz`).

    Its assertions describe counterexamples; the property holds if no input satisfies them. All that is linear is read.

    Raises:
        InputError: There is no such file.
        FileFormatError: It is not VNN-LIB, or not linear; "NAME, line N: ..." says where.

    Example:
        >>> ss.guarantees.read_vnnlib("prop_1.vnnlib")  # doctest: +SKIP
        Property(1 clause, 5 inputs, 5 outputs)
    """
    file = check_file(path)
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise FileFormatError(f"{file.name} is not a text in UTF-8: {error}.") from error
    return Reader(Path(file).name).read(text)


class Reader:
    """Reads one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._variables: dict[str, tuple[bool, int]] = {}  # name to (is it an output, number)
        self._tensors: dict[str, tuple[bool, int, tuple[int, ...]]] = {}
        self._counts = [0, 0]  # inputs, outputs
        self._networks: list[Network] = []

    def read(self, text: str) -> Property:
        asserted: list[Node] = []
        for node in self._nodes(text):
            head = self._head(node)
            if head in ("declare-const", "declare-fun"):
                self._declare(node)
            elif head == "declare-network":
                self._declare_network(node)
            elif head == "assert":
                if len(node.parts) != 2:
                    self._fail(node.line, "assert takes one condition")
                asserted.append(node.parts[1])
            elif head not in ("vnnlib-version", "set-logic", "set-info", "check-sat", "get-model", "exit"):
                self._fail(node.line, f"{head!r} is not read; declarations and assert are")
        if not all(self._counts):
            self._fail(1, "no inputs X_0, X_1, ... or no outputs Y_0, Y_1, ... are declared")
        for is_out, letter in enumerate("XY"):
            missing = set(range(self._counts[is_out])) - {n for out, n in self._variables.values() if out == is_out}
            if missing and not self._tensors:
                self._fail(1, f"{letter}_{min(missing)} is not declared, but one with a larger number is")
        if not asserted:
            self._fail(1, "nothing is asserted")
        clauses: list[list[Atom]] = [[]]
        for node in asserted:
            clauses = self._both(clauses, self._condition(node), node.line)
        networks = self._networks or [Network("", (self._counts[0],), (self._counts[1],))]
        return Property(tuple(self._clause(atoms) for atoms in clauses), name=self._name, networks=tuple(networks))

    def _nodes(self, text: str) -> Iterator[Node]:
        """The lists at the top of the file."""
        stack: list[Node] = []
        for number, line in enumerate(text.splitlines(), 1):
            for word in _TOKEN.findall(line.split(";", 1)[0]):
                if word == "(":
                    if len(stack) > _MOST_DEPTH:
                        self._fail(number, f"more than {_MOST_DEPTH} brackets are open")
                    stack.append(Node(number))
                elif word == ")":
                    if not stack:
                        self._fail(number, "a closing bracket has no opening one")
                    done = stack.pop()
                    if not stack:
                        yield done
                    else:
                        stack[-1].parts.append(done)
                elif not stack:
                    self._fail(number, f"{word!r} stands outside of all brackets")
                else:
                    parts = stack[-1].parts
                    if word.startswith("[") and parts and parts[-1].word and not parts[-1].word.endswith("]"):
                        parts[-1].word += word.replace(" ", "")
                    else:
                        parts.append(Node(number, word))
        if stack:
            self._fail(stack[-1].line, "this bracket is never closed")

    def _head(self, node: Node) -> str:
        if not node.parts or not node.parts[0].word:
            self._fail(node.line, "a list must begin with a word")
        return node.parts[0].word

    def _declare(self, node: Node) -> None:
        """`(declare-const X_0 Real)`, or `(declare-fun X_0 () Real)`."""
        parts = node.parts
        name = parts[1].word if len(parts) > 1 else ""
        if not name or parts[-1].word != "Real" or len(parts) not in (3, 4):
            self._fail(node.line, "a declaration reads (declare-const X_0 Real)")
        match = _NAME.match(name)
        if match is None or match[1] not in ("X", "Y"):
            self._fail(node.line, f"variables are called X_0, X_1, ... and Y_0, Y_1, ..., got {name!r}")
        if name in self._variables:
            self._fail(node.line, f"{name} is declared twice")
        if self._tensors:
            self._fail(node.line, "declare-const does not go with declare-network")
        out = match[1] == "Y"
        self._variables[name] = (out, int(match[2]))
        self._counts[out] += 1

    def _declare_network(self, node: Node) -> None:
        """`(declare-network f (declare-input X Real [1,5]) (declare-output Y Real [1,5]))`."""
        parts = node.parts
        if len(parts) < 2 or not parts[1].word:
            self._fail(node.line, "a network has a name: (declare-network f ...)")
        name, equal_to = parts[1].word, None
        tensors: dict[bool, tuple[str, tuple[int, ...]]] = {}
        if self._variables and not self._tensors:
            self._fail(node.line, "declare-network does not go with declare-const")
        for part in parts[2:]:
            head, inner = self._head(part), part.parts
            if head in ("equal-to", "isomorphic-to") and len(inner) == 2:
                if inner[1].word not in {network.name for network in self._networks}:
                    self._fail(part.line, f"{head} names {inner[1].word!r}, which is no network declared before")
                equal_to = inner[1].word if head == "equal-to" else None
            elif head in ("declare-input", "declare-output"):
                out = head == "declare-output"
                if out in tensors:
                    self._fail(part.line, f"{name} has a second {head[8:]}; one tensor each is read")
                tensors[out] = self._declare_tensor(part, out)
            else:
                self._fail(part.line, f"{head!r} is not read inside declare-network: inputs and outputs are")
        if len(tensors) != 2:
            self._fail(node.line, f"network {name} must declare an input and an output")
        (x, inputs), (y, outputs) = tensors[False], tensors[True]
        self._networks.append(Network(name, inputs, outputs, equal_to, (x, y)))

    def _declare_tensor(self, node: Node, out: bool) -> tuple[str, tuple[int, ...]]:
        kind, *words = (part.word for part in node.parts)
        if len(words) == 2 and words[1].endswith("]"):  # the brackets stand beside the type
            words = [words[0], *re.split(r"(?=\[)", words[1], maxsplit=1)]
        if len(words) != 3 or not re.fullmatch(r"\[\s*(\d+\s*(,\s*\d+\s*)*)?\]", words[2]):
            self._fail(node.line, f"a tensor reads ({kind} X Real [1,5])")
        name, shape = words[0], tuple(int(n) for n in re.findall(r"\d+", words[2]))
        if name in self._tensors:
            self._fail(node.line, f"{name} is declared twice")
        self._tensors[name] = (out, self._counts[out], shape)
        self._counts[out] += prod(shape)
        return name, shape

    def _both(self, some: list[list[Atom]], others: list[list[Atom]], line: int) -> list[list[Atom]]:
        """The conjunction of two disjunctions."""
        if len(some) * len(others) > _MOST_CLAUSES:
            self._fail(line, f"written out, the disjunctions have more than {_MOST_CLAUSES:,} cases")
        return [[*a, *b] for a, b in product(some, others)]

    def _condition(self, node: Node) -> list[list[Atom]]:
        """A condition as a disjunction of conjunctions of atoms."""
        if node.word in ("true", "false"):
            return [[]] if node.word == "true" else []
        if node.word:
            self._fail(node.line, f"a condition was expected, got {node.word!r}")
        head, rest = self._head(node), node.parts[1:]
        if head == "and":
            result: list[list[Atom]] = [[]]
            for part in rest:
                result = self._both(result, self._condition(part), part.line)
            return result
        if head == "or":
            return [clause for part in rest for clause in self._condition(part)]
        if head not in ("<=", "<", ">=", ">", "=", "==", "!="):
            self._fail(node.line, f"{head!r} is not a condition that is read: and, or, <=, <, >=, >, = are")
        if len(rest) < 2:
            self._fail(node.line, f"{head} compares two numbers, got {len(rest)}")
        atoms: list[Atom] = []
        for a, b in pairwise([self._linear(part) for part in rest]):
            below, above = a.plus(b, Fraction(-1)), b.plus(a, Fraction(-1))
            for value in (*below.coefficients.values(), below.constant):
                # rounded to zero or infinity in float64, they would say something else
                if value and not _SMALLEST <= abs(value) <= _LARGEST:
                    self._fail(node.line, "numbers must be 0 or of size 1e-300 to 1e300")
            if head not in (">=", ">"):
                atoms.append((below, head in ("<", "!=")))
            if head not in ("<=", "<"):
                atoms.append((above, head in (">", "!=")))
        if head == "!=" and len(rest) != 2:
            self._fail(node.line, "!= compares two numbers")
        return [[atom] for atom in atoms] if head == "!=" else [atoms]

    def _linear(self, node: Node) -> Linear:
        if node.word:
            return self._number_or_variable(node)
        head, terms = self._head(node), [self._linear(part) for part in node.parts[1:]]
        if head not in ("+", "-", "*") or not terms:
            self._fail(node.line, f"{head!r} of {len(terms)} terms is not linear; +, - and * by numbers are read")
        total = Linear().plus(terms[0], Fraction(-1)) if head == "-" and len(terms) == 1 else terms[0]
        for term in terms[1:]:
            if head != "*":
                total = total.plus(term, Fraction(1 if head == "+" else -1))
                continue
            if term.coefficients and total.coefficients:
                self._fail(node.line, "a product of two variables is not linear")
            kept, by = (term, total) if term.coefficients else (total, term)
            total = Linear().plus(kept, by.constant)
        return total

    def _number_or_variable(self, node: Node) -> Linear:
        word = node.word
        if _NUMBER.match(word):
            if len(word) > _MOST_DIGITS:
                self._fail(node.line, f"a number has {len(word):,} characters, at most {_MOST_DIGITS:,} are read")
            return Linear(constant=Fraction(word))
        if word in self._variables:
            out, number = self._variables[word]
            return Linear({number + (self._counts[0] if out else 0): Fraction(1)})
        name, bracket, places = word.partition("[")
        if name not in self._tensors:
            self._fail(node.line, f"{word!r} is neither a number nor a variable that is declared")
        out, first, shape = self._tensors[name]
        index = [int(n) for n in re.findall(r"\d+", places)] if re.fullmatch(r"[\d,\s]*\]", places) else None
        if not bracket and prod(shape) == 1:
            index = [0] * len(shape)
        if index is None or len(index) != len(shape) or any(i >= n for i, n in zip(index, shape, strict=True)):
            self._fail(node.line, f"{name} has shape {list(shape)}, which {word} does not fit")
        flat = int(np.ravel_multi_index(index, shape)) if shape else 0
        return Linear({first + flat + (self._counts[0] if out else 0): Fraction(1)})

    def _clause(self, atoms: list[Atom]) -> Clause:
        inputs, outputs = self._counts
        rows = np.zeros((len(atoms), inputs + outputs))
        ends, strict = np.zeros(len(atoms)), np.zeros(len(atoms), bool)
        for i, (linear, is_strict) in enumerate(atoms):
            for v, c in linear.coefficients.items():
                rows[i, v] = float(c)
            ends[i], strict[i] = float(-linear.constant), is_strict
        return Clause(rows[:, inputs:], rows[:, :inputs], ends, strict)

    def _fail(self, line: int, what: str) -> NoReturn:
        raise FileFormatError(f"{self._name}, line {line}: {what}.")

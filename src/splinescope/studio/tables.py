"""`read_rows`: rows of a file as numbers, with the class of each where a column holds one."""

import csv
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..support.arrays import read_array
from ..support.checks import as_float64_array, reading
from ..support.errors import InputError

CLASS_HEADERS = ("class", "label", "labels", "target", "species", "category")
"""Names of a column of classes, in any case; without one it is the last column."""


@dataclass(frozen=True)
class Table:
    """Rows of a file: numbers `[n, ...]`, the Python that gives them with `{file}` for the file's name, and classes."""

    numbers: np.ndarray
    made_by: str
    columns: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    classes_from: str = ""

    def fits(self, size: int) -> bool:
        """Whether each row has so many numbers."""
        return self.numbers.ndim > 1 and self.numbers[0].size == size


def read_rows(path: Path, size: int | None = None) -> Table:
    """The rows of an .npy or a CSV file (a header is allowed; columns end at commas, semicolons or tabs).

    A column of text holds the classes. Where rows have one number more than `size`, which a network takes, the column
    that is named so, else the last, holds them, too. The last files that were read are kept.
    """
    about = path.stat()
    return _read(path, size, about.st_mtime_ns, about.st_size)


@lru_cache(2)
def _read(path: Path, size: int | None, *_state: int) -> Table:
    if path.suffix.lower() == ".npy":
        return Table(read_array(str(path)), "np.load({file!r})")
    with reading(path):
        lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        if not lines:
            raise InputError(f"{path} holds no numbers.")
        delimiter = max(",;\t", key=lines[0].count)
        first, *rest = csv.reader(lines[:2], delimiter=delimiter)
        header = not any(map(_is_number, first))
        row = rest[0] if header and rest else first
        names = [name.strip() for name in first] if header else [str(i + 1) for i in range(len(row))]
        if len(names) != len(row):
            raise InputError(f"{path} needs a name for every column in its header, got {len(names)} for {len(row)}.")
        classes = [i for i, cell in enumerate(row) if not _is_number(cell)]
        if len(classes) > 1 or len(row) == len(classes):
            raise InputError(f"{path} must hold numbers and at most one column of text, the class; got {row[:6]}.")
        named = [i for i, name in enumerate(names) if name.lower() in CLASS_HEADERS]
        if classes and named and classes[0] not in named:
            where = names[classes[0]]
            raise InputError(f"{path} has text in column {where!r} beside the classes: leave that column out.")
        if not classes and len(row) - 1 == size:
            classes = [*named, len(row) - 1][:1]
        kept = [i for i in range(len(row)) if i not in classes]
        options: dict[str, Any] = {"delimiter": delimiter, "skiprows": int(header), "ndmin": 2}
        if any('"' in line for line in lines):
            options["quotechar"] = '"'
        if classes:
            options["usecols"] = range(kept[0], kept[-1] + 1) if kept[-1] - kept[0] < len(kept) else kept
        numbers = as_float64_array(np.loadtxt(lines, **options), str(path))
        made_by = "np.loadtxt({file!r}, " + ", ".join(f"{name}={value!r}" for name, value in options.items()) + ")"
        columns = [names[i] for i in kept] if header else []
        if not classes:
            return Table(numbers, made_by, columns)
        cells = np.loadtxt(lines, **options | {"usecols": classes}, dtype=str)[:, 0].tolist()
    where = f"column {names[classes[0]]!r}"
    return Table(numbers, made_by, columns, _class_names(cells, f"{where} of {path}"), where)


def _class_names(cells: list[str], where: str) -> list[str]:
    """Classes as text or whole numbers, the latter without what comes after their point."""
    if not all(map(_is_number, cells)):
        return [cell.strip() for cell in cells]
    numbers = np.array(cells, float)
    if not (np.isfinite(numbers) & (numbers == np.round(numbers))).all():
        raise InputError(f"{where} must hold classes, as text or whole numbers.")
    return [str(int(number)) for number in numbers]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Records of a training run on disk: JSON lines, and snapshots of parameters.

Every line ends with a checksum of itself and of all lines before it. JSON knows neither NaN nor infinities: null stands
for the one, "Infinity" and "-Infinity" for the others.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..support.errors import FileFormatError, InputError, NotWrittenError
from ..support.files import locked, replacing
from .checkpoints import save_checkpoint

Record = dict[str, Any]
"""`step` and `seconds`, and numbers by name."""


class Journal:
    """A folder with `NAME.jsonl` and, if wanted, `snapshots/step-*.safetensors`.

    A line is appended and flushed per record; a line cut short by a crash is dropped when the folder is opened again.
    One run writes to it: what another one has appended in the meantime is never written over, nor doubled.
    """

    def __init__(self, folder: str | os.PathLike[str], header: dict[str, Any], name: str = "complexity") -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f"out must be a folder, got the path {str(folder)!r} of or below a file.") from error
        except OSError as error:
            raise NotWrittenError(f"out must be a folder that can be made, got {str(folder)!r}: {error}.") from error
        self._lines = self.folder / f"{name}.jsonl"
        self._header = header
        self._size = self._checksum = 0  # of all that is written
        with locked(self.folder):
            self.records = self._read()
            self._rewrite(self.records)

    def append(self, record: Record) -> None:
        """Add a record."""
        line, checksum = _line(record, self._checksum)
        with locked(self.folder):
            self._check_unchanged()
            try:
                with self._lines.open("ab") as file:
                    file.write(line)
            except BaseException as error:
                if self._lines.exists():
                    os.truncate(self._lines, self._size)
                if isinstance(error, OSError):
                    raise NotWrittenError(
                        f"{self._lines} cannot take another record: {error}. Earlier ones are there."
                    ) from error
                raise
        self._size, self._checksum = self._size + len(line), checksum
        self.records.append(record)

    def forget_from(self, step: int) -> None:
        """Drop the records of this step and later ones: the run was set back to an earlier checkpoint."""
        kept = [record for record in self.records if record["step"] < step]
        if len(kept) < len(self.records):
            with locked(self.folder):
                self._check_unchanged()
                self._rewrite(kept)
            self.records = kept
            for path in (self.folder / "snapshots").glob("step-*.safetensors"):
                if step_of(path) >= step:
                    path.unlink(missing_ok=True)

    def snapshot(self, model: nn.Module, step: int) -> None:
        """Save the model's parameters and buffers."""
        path = self.folder / "snapshots" / f"step-{step:09d}.safetensors"
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise NotWrittenError(f"{path} was not written, what was there before stays: {error}.") from error
        save_checkpoint(model, path)

    def _read(self) -> list[Record]:
        """The records that are there; a damaged line is refused, a last one that was cut short left out."""
        if not self._lines.exists():
            return []
        try:
            lines = self._lines.read_bytes().decode().split("\n")
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{self._lines} is damaged: {error}.") from error
        last = lines.pop()  # empty, or cut short by a crash (the first line is never: it is written as a whole)
        if not lines or _SEALED.search(last):  # no crash writes more than a line without its end
            lines.append(last)
        checksum, found = 0, []
        for number, line in enumerate(lines):
            record, checksum = self._parsed(number, line, checksum)
            found.append(record)
        if found[0] != {key: _plain(value) for key, value in self._header.items()}:
            self._refuse(found[0])
        return [_numbers(record) for record in found[1:]]

    def _parsed(self, number: int, line: str, checksum: int) -> tuple[Record, int]:
        """A line's record and checksum, given the checksum of the line before it."""
        where = f"{self._lines}: line {number + 1}"
        parts = _SEALED.fullmatch(line)
        body = line if parts is None else parts[1] + "}"
        try:
            record = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{where} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise FileFormatError(f"{where} is not a record by name: {line.strip()!r}.")
        checksum = zlib.crc32(body.encode(), checksum)
        if parts is None or int(parts[2], 16) != checksum:
            raise FileFormatError(f"{where} is damaged: it does not have the checksum that it was written with.")
        if number and not all(type(record.get(key)) in (int, float) for key in ("step", "seconds", "late", "skipped")):
            raise FileFormatError(f"{where} is not the record of a step: {line.strip()!r}.")
        return record, checksum

    def _refuse(self, header: Record) -> None:
        differing = "; ".join(
            f"{key} is {header.get(key)} there and {self._header.get(key)} here"
            for key in {**header, **self._header}
            if header.get(key) != self._header.get(key)
        )
        raise InputError(
            f"{self.folder} holds records of another measurement: {differing}. Choose another folder, or remove them."
        )

    def _check_unchanged(self) -> None:
        """Refuse to write if another run has: the last checksum is one of all that was written before."""
        try:
            with self._lines.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - len(_end(0))))
                same = size == self._size and file.read() == _end(self._checksum).encode()
        except OSError:
            same = False
        if not same:
            raise InputError(
                f"{self._lines} was changed since this run opened it: only one run may write to a folder. Give each "
                "run (each process of a distributed one, too) its own out=."
            )

    def _rewrite(self, records: list[Record]) -> None:
        lines, checksum = [], 0
        for record in (self._header, *records):
            line, checksum = _line(record, checksum)
            lines.append(line)
        with replacing(self._lines) as partial:
            partial.write_bytes(b"".join(lines))
        self._size, self._checksum = sum(map(len, lines)), checksum


_SEALED = re.compile(r'(.*), "checksum": "([0-9a-f]{8})"}')
"""A line, as what is before its checksum, and that."""


def _end(checksum: int) -> str:
    return f', "checksum": "{checksum:08x}"}}\n'


def _line(record: Record, checksum: int) -> tuple[bytes, int]:
    """One line of strict JSON and its checksum, given that of the line before it."""
    plain = {key: _plain(value) for key, value in record.items()}
    body = json.dumps(plain, allow_nan=False)
    checksum = zlib.crc32(body.encode(), checksum)
    return (body[:-1] + _end(checksum)).encode(), checksum


def _plain(value: Any) -> Any:
    """A value as strict JSON has it."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _numbers(record: Record) -> Record:
    """A record with the numbers that `_plain` stands for."""
    special = {None: math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    return {k: special[v] if v is None or (isinstance(v, str) and v in special) else v for k, v in record.items()}


def step_of(path: Path) -> int:
    """The step in a file's name: its last whole number."""
    digits = "".join(c if c.isdigit() else " " for c in path.stem).split()
    if not digits:
        raise InputError(f"checkpoints must have their step in the name (model-000100.pt), got {path.name!r}.")
    return int(digits[-1])

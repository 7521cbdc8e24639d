"""Records of a training run on disk: JSON lines as the truth, CSV beside them, snapshots of parameters."""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from typing import Any

from torch import nn

from .._errors import FileFormatError, InputError
from .._files import replacing

Record = dict[str, Any]
"""`step` and `seconds`, and numbers by name."""


class Journal:
    """A folder with `NAME.jsonl`, `NAME.csv` and, if wanted, `snapshots/step-*.safetensors`.

    A line is appended and flushed per record; a line cut short by a crash is dropped when the folder is opened again.
    """

    def __init__(self, folder: str | os.PathLike[str], header: dict[str, Any], name: str = "complexity") -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f"out must be a folder, got the path {str(folder)!r} of or below a file.") from error
        self._lines = self.folder / f"{name}.jsonl"
        self._table = self.folder / f"{name}.csv"
        self._header = header
        self.records = self._read()
        self._rewrite()

    def append(self, record: Record) -> None:
        """Add a record to both files."""
        self.records.append(record)
        with self._lines.open("a", encoding="utf-8") as file:
            file.write(_line(record))
        with self._table.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(record), extrasaction="ignore")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(record)

    def forget_from(self, step: int) -> None:
        """Drop the records of this step and later ones: the run was set back to an earlier checkpoint."""
        kept = [record for record in self.records if record["step"] < step]
        if len(kept) < len(self.records):
            self.records = kept
            self._rewrite()
            for path in self.snapshots():
                if step_of(path) >= step:
                    path.unlink()

    def snapshot(self, model: nn.Module, step: int) -> Path:
        """Save the model's parameters and buffers."""
        from safetensors.torch import save_model

        path = self.folder / "snapshots" / f"step-{step:09d}.safetensors"
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as partial:
            save_model(model, str(partial))
        return path

    def snapshots(self) -> list[Path]:
        return sorted((self.folder / "snapshots").glob("step-*.safetensors"))

    def _read(self) -> list[Record]:
        if not self._lines.exists():
            return []
        lines = self._lines.read_text(encoding="utf-8").splitlines(keepends=True)
        records: list[Record] = []
        for number, line in enumerate(lines):
            try:
                record = json.loads(line)
                if not isinstance(record, dict):
                    raise FileFormatError(
                        f"{self._lines}: line {number + 1} is not a record by name: {line.strip()!r}."
                    )
                records.append({k: math.nan if v is None and number else v for k, v in record.items()})
            except json.JSONDecodeError as error:
                if 0 < number == len(lines) - 1:
                    break  # cut short by a crash (the first line is never: it is written as a whole)
                raise FileFormatError(f"{self._lines}: line {number + 1} is not JSON: {error}") from error
        if not records:
            return []
        header = records.pop(0)
        if header != self._header:
            told = "; ".join(
                f"{key} is {_told(header, key)} there and {_told(self._header, key)} here"
                for key in {**header, **self._header}
                if header.get(key) != self._header.get(key)
            )
            raise InputError(
                f"{self.folder} holds records of another measurement: {told}. Choose another folder, or remove these."
            )
        return records

    def _rewrite(self) -> None:
        with replacing(self._lines) as partial:
            partial.write_text("".join(map(_line, [self._header, *self.records])), encoding="utf-8")
        with replacing(self._table) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            if self.records:
                writer = csv.DictWriter(file, list(self.records[0]), extrasaction="ignore")
                writer.writeheader()
                writer.writerows(self.records)


def _told(header: Record, key: str) -> str:
    """A setting in words."""
    value = header.get(key)
    if isinstance(value, dict):
        return ", ".join(f"{name} ({number})" for name, number in value.items())
    return "not given" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _line(record: Record) -> str:
    """One line of strict JSON, which has no NaN: null stands for it."""
    plain = {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in record.items()}
    return json.dumps(plain, allow_nan=False) + "\n"


def step_of(path: Path) -> int:
    """The step in a file's name: its last whole number."""
    digits = "".join(c if c.isdigit() else " " for c in path.stem).split()
    if not digits:
        raise InputError(f"checkpoints must have their step in the name (model-000100.pt), got {path.name!r}.")
    return int(digits[-1])

"""Records of a run on disk are those that were measured, whatever happens to the disk, or refused in words."""

import json
import math
import resource
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import splinescope as ss
from splinescope.support.errors import NotWrittenError
from splinescope.train.journal import Journal

HEADER = {"format": "splinescope.test", "version": 3, "radius": 0.25}


def record(step: int, value: float = 1.25) -> dict[str, float]:
    return {"step": step, "seconds": 0.5, "late": 0, "skipped": 0, "train": value}


def opened(folder: Path) -> Journal:
    return Journal(folder, HEADER, "test")


def test_infinite_values_and_nan_are_read_as_they_were_written(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for step, value in enumerate((np.float32(math.inf), -math.inf, math.nan, 1e308)):
        journal.append(record(step, value))
    read = [each["train"] for each in opened(tmp_path).records]
    assert read[:2] == [math.inf, -math.inf]
    assert math.isnan(read[2])
    assert read[3] == 1e308
    for line in (tmp_path / "test.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # strict JSON has no such words


def test_a_full_disk_is_told_in_words_and_leaves_what_was_there(tmp_path: Path) -> None:
    journal, model = opened(tmp_path), nn.Linear(50, 50)
    journal.append(record(0))
    (tmp_path / "snapshots").mkdir()
    before = {file.name: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before["test.jsonl"]) + 20, hard))
    try:
        with pytest.raises(ss.SplinescopeError, match=r"test\.jsonl cannot take another record: .*Earlier ones are"):
            journal.append(record(1))
        with pytest.raises(NotWrittenError, match=r"step-000000001.* what was there before stays"):
            journal.snapshot(model, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file.name: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert [each["step"] for each in journal.records] == [0]
    journal.append(record(2))
    assert [each["step"] for each in opened(tmp_path).records] == [0, 2]


def test_of_two_runs_that_write_to_one_folder_the_second_is_refused(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    first.append(record(0))
    for write in (lambda: second.append(record(0)), lambda: second.append(record(1))):
        with pytest.raises(ss.InputError, match=r"changed since this run opened it.*its own out="):
            write()
    first.append(record(1))
    assert [each["step"] for each in opened(tmp_path).records] == [0, 1]
    (tmp_path / "test.jsonl").unlink()
    with pytest.raises(ss.InputError, match="changed since"):
        first.append(record(2))


def test_a_line_left_out_or_doubled_is_refused_and_one_cut_short_is_dropped(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for step in range(4):
        journal.append(record(step))
    path = tmp_path / "test.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for wrong in ([*lines[:2], *lines[3:]], [*lines[:3], lines[2], *lines[3:]], [*lines, lines[-1]]):
        path.write_text("".join(wrong))
        with pytest.raises(ss.FileFormatError, match=r"line \d is damaged"):
            opened(tmp_path)
    for cut, steps in ((1, 4), (2, 3), (40, 3)):  # without the end of the line it is whole
        path.write_text("".join(lines)[:-cut])
        assert [each["step"] for each in opened(tmp_path).records] == list(range(steps))
        path.write_text("".join(lines))

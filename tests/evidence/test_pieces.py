"""Parts of a long experiment: an interrupted run goes on inside it, and comes to the same record."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.evidence import _pieces, ids, meanfield_gathering, reproduce
from splinescope.evidence._pieces import _ACTIVE, LONG, Pieces, keeping

pytest.importorskip("matplotlib").use("Agg")

NAME = "meanfield-gathering"
"""Four calls of its long function at quick size, each with two descents."""


class Stopped(Exception):
    pass


def stopped_at(call: int) -> Any:
    """A progress function that ends the run before its so-manieth long call."""
    seen = []

    def progress(share: float, what: str) -> None:
        seen.append(what)
        if len(seen) == call:
            raise Stopped

    return progress


def pieces_in(folder: Path) -> list[Path]:
    return sorted((folder / "pieces" / NAME).glob("*"))


def record_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{NAME}.json").read_text())
    return found


@pytest.fixture
def descents(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How many descents were made."""
    made: list[str] = []
    descend = meanfield_gathering.descend

    def counted(*args: Any, **options: Any) -> Any:
        made.append(options["dynamics"])
        return descend(*args, **options)

    monkeypatch.setattr(meanfield_gathering, "descend", counted)
    return made


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("straight")
    reproduce([NAME], out=folder, size="quick")
    assert not (folder / "pieces").exists()
    return record_in(folder)


def stopped(folder: Path, call: int) -> None:
    with pytest.raises(Stopped):
        reproduce([NAME], out=folder, size="quick", progress=stopped_at(call))


def test_what_was_finished_is_not_made_again(tmp_path: Path, straight: dict[str, Any], descents: list[str]) -> None:
    stopped(tmp_path, 4)
    assert (len(pieces_in(tmp_path)), len(descents)) == (3, 6)
    assert not (tmp_path / f"{NAME}.json").exists()
    reproduce([NAME], out=tmp_path, size="quick")
    assert len(descents) == 8
    found = record_in(tmp_path)
    for key in straight.keys() - {"seconds", "cpu_seconds"}:
        assert found[key] == straight[key], key
    assert not (tmp_path / "pieces").exists()


def test_times_of_kept_parts_count(tmp_path: Path) -> None:
    stopped(tmp_path, 4)
    for path in pieces_in(tmp_path):
        piece = _pieces._read(path)
        assert piece is not None
        _pieces._write(path, piece | {"seconds": 1000.0, "cpu_seconds": 500.0})
    reproduce([NAME], out=tmp_path, size="quick")
    assert 3000 < record_in(tmp_path)["seconds"] < 3100
    assert 1500 < record_in(tmp_path)["cpu_seconds"] < 1600


def test_a_damaged_part_is_made_again(tmp_path: Path, straight: dict[str, Any], descents: list[str]) -> None:
    stopped(tmp_path, 4)
    cut, changed, empty = pieces_in(tmp_path)
    cut.write_bytes(cut.read_bytes()[:-5])
    changed.write_bytes(changed.read_bytes()[:-1] + b"x")
    empty.write_bytes(b"")
    reproduce([NAME], out=tmp_path, size="quick")
    assert len(descents) == 6 + 8
    assert record_in(tmp_path)["numbers"] == straight["numbers"]


def test_parts_of_another_seed_source_or_start_are_not_taken(
    tmp_path: Path, descents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(tmp_path, 2)
    with pytest.raises(Stopped):
        reproduce([NAME], out=tmp_path, size="quick", seed=1, progress=stopped_at(2))
    assert (len(pieces_in(tmp_path)), len(descents)) == (2, 4)
    with pytest.raises(Stopped):
        reproduce([NAME], out=tmp_path, size="quick", fresh=True, progress=stopped_at(2))
    assert (len(pieces_in(tmp_path)), len(descents)) == (2, 6)
    monkeypatch.setattr("splinescope.evidence._reproduce.source_of", lambda _: "another")
    reproduce([NAME], out=tmp_path, size="quick")
    assert len(descents) == 6 + 8
    assert [path.name.split("-")[2] for path in pieces_in(tmp_path)] == ["1"]  # the other seed is still under way


def _grow(net: nn.Module, rows: torch.Tensor, generator: torch.Generator) -> float:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += torch.randn(parameter.shape, generator=generator)
    return float(net.eval()(rows).sum().detach())


def _three_calls(pieces: Pieces) -> list[Any]:
    torch.manual_seed(0)
    net, generator = nn.Sequential(nn.Linear(2, 3), nn.Dropout()), torch.Generator().manual_seed(0)
    rows = torch.ones(4, 2)
    values = [pieces.call(_grow, (net.train(), rows), {"generator": generator}) for _ in range(3)]
    return [*values, net.state_dict()["0.weight"].tolist(), generator.initial_seed(), generator.get_state().tolist()]


def test_networks_and_random_generators_are_left_as_the_call_left_them(tmp_path: Path) -> None:
    first = _three_calls(Pieces(tmp_path, "source-full-0"))
    again = Pieces(tmp_path, "source-full-0")
    assert _three_calls(again) == first
    assert again.found == 3
    assert len({*first[:3]}) == 3


def test_a_part_of_a_part_is_not_kept(tmp_path: Path) -> None:
    """Where two experiments share a long function, the second's parts may hold calls of it: they are made inside."""
    pieces = Pieces(tmp_path, "source-full-0")
    token = _ACTIVE.set(pieces)
    try:

        def inner(value: int) -> int:
            active = _ACTIVE.get()
            return value if active is None else active.call(inner, (value,), {})

        assert [pieces.call(lambda v: inner(v) + 1, (v,), {}) for v in (1, 2)] == [2, 3]
        assert _ACTIVE.get() is pieces
    finally:
        _ACTIVE.reset(token)
    assert len(list(tmp_path.iterdir())) == 2


def test_the_table_names_functions_that_are_there() -> None:
    assert set(LONG) <= set(ids())
    for names in LONG.values():
        for name in names:
            module, function = name.split(".")
            assert callable(getattr(importlib.import_module(f"splinescope.evidence.{module}"), function))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "pieces").write_text("a file where the folder should be")
    with pytest.raises(ss.SplinescopeError, match="cannot take a part of the run"):
        reproduce([NAME], out=tmp_path, size="quick")


def test_other_experiments_keep_nothing(tmp_path: Path) -> None:
    with keeping(tmp_path, "decomposed-sec2", "source", "quick", 0):
        meanfield_gathering._shares(4, 10, 2, 0, None)
    assert not any(tmp_path.iterdir())

"""Which changes of its code make a result stale: those of what `run` reaches, and no others."""

from pathlib import Path

import pytest

from splinescope_evidence import ids
from splinescope_evidence.framework import registry, source

RUN = """
from splinescope_evidence.framework.experiment import Check, judged
from splinescope_evidence.shared.help import level as _level

SEEDS, STEPS = 5, 10

def run(size: str, seed: int = 0):
    \"\"\"Measures.\"\"\"
    values = _twice(_level(STEPS))  # a remark
    return judged(values, Check("least", min(values), ">", 0.5, "half is enough"))

def _twice(x):
    return 2 * x

def draw(numbers):
    return numbers
"""
HELP = """
LEVEL = 3

def level(steps):
    return steps + LEVEL

def other():
    return 1
"""


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is reached from `run` of a file, with a helper beside it."""
    root = tmp_path / "splinescope_evidence"
    monkeypatch.setattr(source, "ROOT", root)

    def reached(run: str, file: str = "own/one.py", **shared: str) -> set[str]:
        for name, text in {file: run, **{f"shared/{name}.py": text for name, text in shared.items()}}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        source._names.cache_clear()
        return source.reached(root / file)

    yield reached
    source._names.cache_clear()


SAME = {
    "a remark": (RUN.replace("# a remark", "# another"), HELP),
    "a docstring": (RUN.replace("Measures.", "Measures all."), HELP),
    "what draws": (RUN.replace("    return numbers", "    return sorted(numbers)"), HELP),
    "types": (RUN.replace("seed: int = 0", "seed: float = 0"), HELP),
    "a reason": (RUN.replace("half is enough", "a half is enough"), HELP),
    "layout": (RUN.replace("_twice(_level(STEPS))", "_twice(\n        _level(STEPS)\n    )"), HELP),
    "a name made public": (RUN.replace("_twice", "twice"), HELP),
    "how it is imported": (RUN.replace("from splinescope_evidence.shared.help", "from ..shared.help"), HELP),
    "what it does not use": (RUN, HELP.replace("return 1", "return 2")),
    "the order": (RUN, HELP.replace("LEVEL = 3\n", "") + "\nLEVEL = 3\n"),
}
OTHER = {
    "a threshold": (RUN.replace("0.5", "0.6"), HELP),
    "a number": (RUN.replace("2 * x", "3 * x"), HELP),
    "a constant": (RUN.replace("5, 10", "5, 11"), HELP),
    "a default": (RUN.replace("seed: int = 0", "seed: int = 1"), HELP),
    "a helper": (RUN, HELP.replace("steps + LEVEL", "steps - LEVEL")),
    "a constant of a helper": (RUN, HELP.replace("LEVEL = 3", "LEVEL = 4")),
}


@pytest.mark.parametrize("change", SAME)
def test_what_measures_the_same_is_the_same_source(hashed, change: str) -> None:
    before = hashed(RUN, help=HELP)
    run, help_ = SAME[change]
    assert (run, help_) != (RUN, HELP)
    assert hashed(run, help=help_) == before


@pytest.mark.parametrize("change", OTHER)
def test_what_measures_otherwise_is_another_source(hashed, change: str) -> None:
    before = hashed(RUN, help=HELP)
    assert len(before) == 5  # run, _twice, level, the steps, the level
    run, help_ = OTHER[change]
    assert hashed(run, help=help_) != before


def test_moving_files_and_definitions_makes_no_result_stale(hashed) -> None:
    before = hashed(RUN, help=HELP)
    moved = RUN.replace("shared.help import level as _level", "shared.deep import level as _level")
    assert hashed(moved, "survey/figures/two.py", deep=HELP) == before
    inlined = RUN.replace("from splinescope_evidence.shared.help import level as _level\n", HELP).replace(
        "_level", "level"
    )
    assert hashed(inlined) == {form.replace("_level", "level") for form in before}


def test_no_two_experiments_share_an_id_and_what_they_use_is_imported_by_name() -> None:
    """A helper that is called as `module.name` would not be seen."""
    there = [file for name in registry.DOCUMENTS for file in (registry.ROOT / name).rglob("[!_]*.py")]
    assert len(there) == len(ids())
    for file in (*there, *(registry.ROOT / "shared").glob("*.py")):
        _, imports = source._names(file)
        for where, name in imports.values():
            assert name in source._names(where)[0], f"{file}: {name}"
        text = file.read_text(encoding="utf-8")
        assert "import splinescope_evidence" not in text, file
        assert "from splinescope_evidence.shared import" not in text, file

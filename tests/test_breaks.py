"""The list of breaks follows the code: one that no longer applies breaks nothing, and no test is tried by it."""

import ast
from pathlib import Path

import pytest

from .breaks import ROOT, Break, breaks, tried


def test_a_break_applies_once_and_names_tests_that_exist() -> None:
    for one in breaks():
        source = (ROOT / one.source).read_text(encoding="utf-8")
        assert one.applied(source) != ast.unparse(ast.parse(source)), one.name
        assert one.test_files, one.name
        assert all((ROOT / file).exists() for file in one.test_files), one.name


def test_a_break_is_found_by_its_syntax_in_its_function_alone() -> None:
    one = Break("a", "sums.py", "a+b", "a - b", "tests/test_sums.py", "Sums.add")
    source = (
        "def add(a, b):\n    return a + b\n\nclass Sums:\n    def add(self, a, b):\n        return (a  # one\n+ b)\n"
    )
    assert one.applied(source) == ast.unparse(ast.parse(source)).replace("a + b", "a - b").replace("a - b", "a + b", 1)
    for old, function in (("a + c", "Sums.add"), ("a + b", "Sums.sub"), ("a + b", "")):
        with pytest.raises(LookupError, match=r"sums\.py"):
            Break("a", "sums.py", old, "0", "tests/test_sums.py", function).applied(source)


def test_no_two_breaks_have_one_name() -> None:
    names = [one.name for one in breaks()]
    assert len(set(names)) == len(names)


def test_a_break_is_killed_survives_or_is_stale_and_leaves_the_source_as_it_was(tmp_path: Path) -> None:
    source, law = tmp_path / "src" / "splinescope" / "sums.py", tmp_path / "tests" / "test_sums.py"
    for file, text in ((source, "def add(a, b):\n    return a + b\n"), (law, LAW)):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    before = source.stat().st_mtime_ns
    seen = {old: tried(Break("a", "sums.py", old, new, "tests/test_sums.py"), tmp_path) for old, new in CHANGES}
    assert {old: found.result for old, found in seen.items()} == {
        "a + b": "killed",
        "return a + b": "SURVIVED",
        "a * b": "STALE",
    }
    assert seen["a + b"].told == "tests/test_sums.py::test_zero_is_neutral"
    assert source.read_text() == "def add(a, b):\n    return a + b\n"
    assert source.stat().st_mtime_ns == before


LAW = """
import importlib.util, pathlib
def test_zero_is_neutral():
    spec = importlib.util.spec_from_file_location("sums", pathlib.Path("src/splinescope/sums.py"))
    sums = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sums)
    assert sums.add(3, 0) == 3
"""
CHANGES = [("a + b", "a + b + 1"), ("return a + b", "return b + a"), ("a * b", "0")]

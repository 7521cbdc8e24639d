"""The list of breaks follows the code: one that no longer applies breaks nothing, and no test is tried by it."""

import pytest

from .breaks import ROOT, Break, breaks


@pytest.mark.parametrize("one", breaks(), ids=lambda one: one.name)
def test_a_break_applies_once_and_names_tests_that_exist(one: Break) -> None:
    source = (ROOT / "src" / "splinescope" / one.file).read_text(encoding="utf-8")
    assert source.count(one.old) == 1
    assert one.new != one.old
    files = [word.partition("::")[0] for word in one.tests.split() if word.startswith("tests/")]
    assert files
    assert all((ROOT / file).exists() for file in files)


def test_no_two_breaks_have_one_name() -> None:
    names = [one.name for one in breaks()]
    assert len(set(names)) == len(names)

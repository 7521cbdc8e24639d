"""Data flows one way: a lower part never imports a higher one when it is loaded."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import splinescope

ROOT = Path(splinescope.__file__).parent
LEVEL = {
    **dict.fromkeys(
        (
            *("_errors", "_archive", "_checks", "_compile", "_derivatives", "_display", "_files", "_interrupt"),
            *("_cluster", "_parallel", "_progress", "_threads"),
        ),
        0,
    ),
    **dict.fromkeys(("data", "network"), 1),
    **dict.fromkeys(("tiling", "train"), 2),
    **dict.fromkeys(("complexity", "representation", "meanfield"), 3),
    # these build on the monitor of [complexity] and the initialisation of [representation]
    **dict.fromkeys(("normalization", "landscape", "generative", "smooth"), 4),
    "plot": 5,
    **dict.fromkeys(("evidence", "reports"), 6),
    **dict.fromkeys(("studio", "cli"), 7),
}


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of splinescope that a file imports at module level."""
    package = ("splinescope", *path.relative_to(ROOT).parts[:-1])
    found = set()
    for node in top_level(ast.parse(path.read_text(encoding="utf-8")).body):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            names = [[*base, alias.name] for alias in node.names]
        found |= {name[1] for name in names if name[0] == "splinescope" and len(name) > 1}
    return found & LEVEL.keys()


def top_level(body: list[ast.stmt]):
    """Statements that run on import, `if TYPE_CHECKING` left out."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        for inner in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With, ast.ClassDef)):
                yield from top_level(getattr(node, inner, []))


FILES = [path for path in sorted(ROOT.rglob("*.py")) if part_of(path) in LEVEL]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_part_imports_a_higher_one(path):
    part = part_of(path)
    wrong = {other for other in imported_parts(path) if other != part and LEVEL[other] >= max(LEVEL[part], 1)}
    assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


SHARED_UNDER_ITS_OLD_NAME = {("complexity", "_statistics")}
"""Experiments import it by this name, and their results are kept by the hash of their source."""


def private_modules(path: Path) -> set[tuple[str, str]]:
    """(part, module) of every module with an underscore that a file imports from another part, wherever it does so."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            names = [base] if len(base) > 1 else [[*base, alias.name] for alias in node.names]
            found |= {(name[0], name[1]) for name in names if name[0] in LEVEL and name[0] != part_of(path)}
    return {(part, name) for part, name in found if name.startswith("_") and (ROOT / part / f"{name}.py").is_file()}


def test_a_file_with_an_underscore_is_its_own_parts_alone():
    wrong = {(str(path.relative_to(ROOT)), *found) for path in FILES for found in private_modules(path)}
    assert {tuple(found) for _, *found in wrong} == SHARED_UNDER_ITS_OLD_NAME, wrong


def test_hot_loops_are_compiled_in_one_way_and_stand_in_kernels():
    """Elsewhere any change beside them would have them compiled anew: see `_compile`."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if path.name != "_compile.py":
            assert "njit" not in text, path
            compiled = "@jit" in text or "@in_place" in text
            assert not compiled or "kernels" in (path.parent.name, path.stem.lstrip("_")), path


def test_every_part_has_a_level():
    parts = {part_of(path) for path in ROOT.rglob("*.py")}
    assert parts - LEVEL.keys() <= {"__init__", "__main__"}


def test_parts_are_attributes_whatever_has_been_loaded():
    command = "import splinescope as ss; ss.data, ss.normalization.fold_counts, ss.plot.film"
    subprocess.run([sys.executable, "-c", command], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        splinescope.nothing  # noqa: B018

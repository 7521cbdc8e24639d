"""Data flows one way: a room imports only the rooms it may, when it is loaded or later, inside a function."""

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import splinescope
from splinescope.rooms import plan

ROOT = Path(splinescope.__file__).parent

ORDER = (
    ("support",),
    ("data", "network"),
    ("train", "tiling"),
    ("guarantees", "space"),
    ("complexity", "meanfield", "representation"),
    ("normalization", "landscape", "generative", "smooth"),  # on the monitors and networks of the line above
    ("plot",),
    ("reports",),
    ("cli", "studio"),
)
"""Parts, from the lowest to the highest: each imports parts of the lines above its own."""
LEVEL = {part: level for level, parts in enumerate(ORDER) for part in parts}

UP = {("cli", "studio")}
"""The verb starts the server, of the same line."""


def room_of(path: Path) -> str:
    """The folder of a file; for a file at the top, its own name."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:-1]) or parts[0].removesuffix(".py")


MODULES = {path.relative_to(ROOT).with_suffix("").parts: path for path in ROOT.rglob("*.py")}


def imported(path: Path) -> set[tuple[str, ...]]:
    """Modules of splinescope that a file imports anywhere but for type checkers alone."""
    package = path.relative_to(ROOT).parts[:-1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in typing:
            if node.level:
                base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
            elif (node.module or "").split(".")[0] == "splinescope":
                base = tuple(node.module.split(".")[1:])
            else:
                continue
            for alias in node.names:
                for name in ((*base, alias.name), (*base, alias.name, "__init__"), base, (*base, "__init__")):
                    if name in MODULES:
                        found.add(name)
                        break
    return found


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT]
ROOMS = sorted({path.parent for path in FILES})


def from_elsewhere(folder: Path) -> set[str]:
    """What the files of a room import: other parts, other rooms of its part, and the part's own files."""
    room = room_of(folder / "__init__.py")
    part, found = room.split("/")[0], set()
    for name in set().union(*(imported(path) for path in folder.glob("*.py"))):
        other = room_of(MODULES[name])
        if len(name) > 1 and other != room and (name[0] != part or room != part):
            inside = name[-1] if other == part and name[-1] != "__init__" else other.split("/")[-1]
            found.add(inside if name[0] == part else name[0])
    return found


@pytest.mark.parametrize("folder", ROOMS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_what_its_docstring_says_and_only_parts_below_its_own(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    imports = from_elsewhere(folder)
    assert set(re.findall(r"`(\w+)`", text.partition("Imports")[2].partition(".")[0])) == imports
    part = folder.relative_to(ROOT).parts[0]
    for other in imports & set(LEVEL) - {part}:
        assert LEVEL[other] < LEVEL[part] or (part, other) in UP, f"{folder.name} imports {other}"


def test_no_files_import_each_other() -> None:
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()


def test_every_part_has_a_place_in_the_order() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(LEVEL)


@pytest.mark.parametrize("folder", ROOMS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_is_small_and_says_what_it_is(folder: Path) -> None:
    files = list(folder.glob("*.py"))
    assert len(files) <= 25, f"{folder.name} has {len(files)} files"
    for file in files:
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        assert text, f"{file} does not say what it is"


def test_a_file_with_an_underscore_is_its_own_parts_alone() -> None:
    wrong = [
        (str(path.relative_to(ROOT)), ".".join(name))
        for path in FILES
        for name in imported(path)
        if name[-1].startswith("_") and name[-1] != "__init__" and name[0] != path.relative_to(ROOT).parts[0]
    ]
    assert not wrong


def test_hot_loops_are_compiled_in_one_way_and_stand_in_kernels() -> None:
    """Elsewhere any change beside them would have them compiled anew: see `support.compile`."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if path.name != "compile.py":
            assert "njit" not in text, path
            compiled = "@jit" in text or "@in_place" in text
            assert not compiled or "kernels" in (path.parent.name, path.stem.lstrip("_")), path


def test_forward_passes_are_intercepted_in_one_place():
    """Modes of torch and forward hooks are set by `network/watching` alone, so that what holds of one holds of all."""
    wrong = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in FILES
        for word in re.findall(r"Torch\w+Mode\b|register_(?:module_)?forward\w*", path.read_text(encoding="utf-8"))
        if path.parent != ROOT / "network" / "watching"
    ]
    assert not wrong


def test_the_package_imports_nothing_of_the_second_distribution() -> None:
    named = re.compile(r"^\s*(?:import|from) splinescope_(?:research|evidence)\b", re.MULTILINE)
    assert [path for path in FILES if named.search(path.read_text(encoding="utf-8"))] == []


def test_parts_are_attributes_whatever_has_been_loaded() -> None:
    command = "import splinescope as ss; ss.data, ss.normalization.fold_distances, ss.plot.film"
    subprocess.run([sys.executable, "-c", command], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        splinescope.nothing  # noqa: B018


def test_the_plan_of_the_house_says_what_every_file_is_for():
    lines = plan().splitlines()
    assert len(lines) == len(MODULES)
    assert all(re.fullmatch(r" *\S+ +\S.*", line) for line in lines)
    assert set(plan(["space"]).splitlines()) < set(lines)

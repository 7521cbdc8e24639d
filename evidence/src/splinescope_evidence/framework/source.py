"""Which code made a result: a hash of what a run reaches, in whatever files that stands."""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from .experiment import Check
from .registry import ROOT, files


@cache
def source_of(experiment_id: str) -> str:
    """12 hexadecimal digits of the hash of an experiment's code: `run` and what it reaches in this distribution.

    Functions, classes and constants count by their syntax trees. Files and their names do not count, nor imports,
    annotations, docstrings, comments, leading underscores and the reasons of checks: code that is moved, made public or
    explained in other words measures the same. Nor does what draws, judges or shows, nor the package that measures,
    whose own tests hold it.
    """
    forms = reached(files()[experiment_id])
    return hashlib.sha256("\n".join(sorted(forms)).encode()).hexdigest()[:12]


def reached(file: Path) -> set[str]:
    """Each definition that `run` of a file reaches, as text."""
    waiting, seen, forms = [(file, "run")], set(), set()
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        definitions, imports = _names(place[0])
        if place[1] in definitions:
            node = definitions[place[1]]
            forms.add(_form(node))
            waiting += [(place[0], name.id) for name in ast.walk(node) if isinstance(name, ast.Name)]
        elif place[1] in imports:
            waiting.append(imports[place[1]])
    return forms


@cache
def _names(file: Path) -> tuple[dict[str, ast.stmt], dict[str, tuple[Path, str]]]:
    """What a file defines, by name, and what it imports from this distribution: its file and its name there."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports = {
        alias.asname or alias.name: (module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (module := _measuring(node, file)) is not None
        for alias in node.names
    }
    definitions: dict[str, ast.stmt] = {}
    for node in _Bare().visit(tree).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            definitions[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = (name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
            definitions |= {name.id: node for name in names}
    return definitions, imports


def _measuring(node: ast.ImportFrom, file: Path) -> Path | None:
    """The file that an import is from, if it is one of this distribution and not of the framework."""
    folder = file.parents[node.level - 1] if node.level else ROOT.parent
    found = folder.joinpath(*(node.module or "").split(".")).with_suffix(".py")
    inside = found.is_relative_to(ROOT) and not found.is_relative_to(ROOT / "framework")
    return found if inside and found.is_file() else None


_REASON = list(Check.__dataclass_fields__).index("reason")
"""Place of a check's reason among its arguments."""


class _Bare(ast.NodeTransformer):
    """Takes away what measures nothing: docstrings and other strings by themselves, imports, annotations, reasons."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "Check":
            node.args = node.args[:_REASON]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _form(node: Any) -> str:
    """A syntax tree as text: `ast.dump` without what differs between versions of Python."""
    if isinstance(node, list):
        return f"[{','.join(map(_form, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, []) and name != "kind"]
    if not isinstance(node, ast.Constant):
        fields = [(name, value.lstrip("_") if isinstance(value, str) else value) for name, value in fields]
    return f"{type(node).__name__}({','.join(f'{name}={_form(value)}' for name, value in fields)})"

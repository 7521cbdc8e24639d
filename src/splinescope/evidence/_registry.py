"""Finds experiments by id; the folder is the list. Tells by a hash which source made a result."""

from __future__ import annotations

import ast
import hashlib
import importlib
import io
import pkgutil
import tokenize
from functools import cache
from pathlib import Path

from .._errors import InputError
from ._experiment import Experiment

_FOLDER = Path(__file__).parent
_FRAMEWORK = {
    "_experiment",
    "_registry",
    "_reproduce",
    "_pieces",
    "_pages",
    "_figures",
}  # run, draw and show experiments; they measure nothing


def ids() -> list[str]:
    """Ids of all experiments, sorted."""
    names = (module.name for module in pkgutil.iter_modules([str(_FOLDER)]))
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


def find(experiment_id: str) -> Experiment:
    """The experiment with this id; an unknown id is an error that lists the known ones."""
    if experiment_id not in ids():
        raise InputError(f"No experiment {experiment_id!r}; there are: {', '.join(ids())}.")
    module = importlib.import_module(f"{__package__}.{experiment_id.replace('-', '_')}")
    experiment: Experiment = module.EXPERIMENT
    return experiment


@cache
def source_of(experiment_id: str) -> str:
    """12 hexadecimal digits of the hash of an experiment's source: its module and the modules of this folder it uses.

    Comments and empty lines do not count, nor how it is drawn, nor its title, place and notes, nor what it measures
    with (the rest of the package): its own tests hold that.
    """
    seen: set[str] = set()
    stack = [experiment_id.replace("-", "_")]
    while stack:
        name = stack.pop()
        if name in seen or not (_FOLDER / f"{name}.py").is_file():
            continue
        seen.add(name)
        tree = ast.parse((_FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1]
        stack += [node.module for node in imports if node.module and node.module not in _FRAMEWORK]
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(f"{name}\n{_measuring((_FOLDER / f'{name}.py').read_text(encoding='utf-8'))}".encode())
    return digest.hexdigest()[:12]


def _measuring(source: str) -> str:
    """Source as it stands, without comments, empty lines, `draw` and the statement that sets `EXPERIMENT`.

    A remark, a colour, a title, a place or a note on what was changed makes no result stale.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.parse(source).body:
        if _shows(node) and node.end_lineno is not None:
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "".join(f"{line.rstrip()}\n" for line in lines if line.strip())


def _shows(node: ast.stmt) -> bool:
    """Whether a statement of a module only shows what the others measure."""
    if isinstance(node, ast.FunctionDef):
        return node.name == "draw"
    names = node.targets if isinstance(node, ast.Assign) else ()
    return [name.id for name in names if isinstance(name, ast.Name)] == ["EXPERIMENT"]

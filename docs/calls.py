"""Calls in the text lead to the reference: `ss.trace(x)` -> splinescope.network.trace.

`reference()` is what the pages in `docs/api` document, `target(code)` the entry that an inline piece of code leads to;
`setup` makes Sphinx follow it. The tests use the first two, so that no page names a call that has no entry.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

API = Path(__file__).parent / "api"
VARIABLES = {"tiling": "Tiling", "view": "Slice"}
"""What a name in the text stands for, so that `tiling.plot()` leads to the method."""


@cache
def entries() -> dict[str, Any]:
    """Full name -> what it is, of all that the pages document."""
    found: dict[str, Any] = {}
    for page in sorted(API.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"automodule:: ([\w.]+)", text):
            module = importlib.import_module(name)
            found |= {f"{name}.{each}": getattr(module, each) for each in _public(module)}
        for name in re.findall(r"auto(?:class|function|data|exception):: ([\w.]+)", text):
            module, _, last = name.rpartition(".")
            found[name] = getattr(importlib.import_module(module), last)
    return found


def _public(module: Any) -> list[str]:
    own = [name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__]
    return list(getattr(module, "__all__", [name for name in own if not name.startswith("_")]))


@cache
def reference() -> dict[str, str]:
    """Short name -> entry: `tessellate`, `tiling.tessellate` and `Tiling.plot` all lead somewhere."""
    found: dict[str, str] = {}
    for name, thing in entries().items():
        words = name.split(".")
        for first in range(len(words)):
            found.setdefault(".".join(words[first:]), name)
        found.setdefault(f"{words[1]}.{words[-1]}", name)
        if inspect.isclass(thing):
            for method in dir(thing):
                if not method.startswith("_"):
                    found.setdefault(f"{words[-1]}.{method}", f"{name}.{method}")
    return found


def target(code: str, *, words: bool = False) -> str | None:
    """The entry that a piece of code leads to; None if it is none of ours or, unless `words`, a mere word: `model`."""
    own = re.match(r"(?:ss|splinescope)\.", code)
    match = re.match(r"(?:ss\.|splinescope\.)?([A-Za-z_][\w.]*)", code)
    if match is None or (not own and re.search(r"[^\w.]", code[match.end() :].split("(")[0])):
        return None
    name, (first, _, rest) = match[1], match[1].partition(".")
    if rest and first in VARIABLES and not own:
        return reference().get(f"{VARIABLES[first]}.{rest}")
    if not words and code.islower() and code.isidentifier() and "_" not in code:
        return None
    return reference().get(name)


def setup(app: Any) -> dict[str, bool]:
    from docutils import nodes
    from sphinx import addnodes

    def link(app: Any, tree: Any) -> None:
        here = app.env.docname
        if here.startswith("gallery/"):
            return
        for node in list(tree.findall(nodes.literal)):
            around = list(above(node))
            api, table = here.startswith("api/"), isinstance(node.parent.parent, nodes.entry)
            closed = any(isinstance(up, nodes.reference | nodes.title | addnodes.desc | nodes.comment) for up in around)
            made = any(type(up).__name__ == "autosummary_table" for up in around)  # has links of its own
            entry = target(node.astext(), words=api and table)
            if entry is None or closed or made:
                continue
            reference = addnodes.pending_xref("", refdomain="py", reftype="obj", reftarget=entry, refexplicit=True)
            reference["refdoc"] = here
            node.replace_self(reference)
            reference += node

    def above(node: Any) -> Any:
        while node.parent is not None:
            node = node.parent
            yield node

    app.connect("doctree-read", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

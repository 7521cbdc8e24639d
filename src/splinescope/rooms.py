"""`python -m splinescope.rooms [ROOM ...]` prints the plan of the package: each file with the first line of it."""

import ast
import sys
from collections.abc import Iterable
from pathlib import Path

_ROOT = Path(__file__).parent


def plan(rooms: Iterable[str] = ()) -> str:
    """Every file, below its folder, with the first line of its docstring; of some rooms only (`tiling/engine`)."""
    files = [file for room in rooms or [""] for file in sorted((_ROOT / room).rglob("*.py"))]
    lines = []
    for file in sorted(files, key=lambda file: (file.parent, file.name)):  # `__init__`, the room's own, comes first
        first = (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n")[0]
        room = file.name == "__init__.py"
        name = f"{file.parent.relative_to(_ROOT.parent)}/" if room else f"    {file.stem}"
        lines.append(f"{name:<28} {first}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(plan(sys.argv[1:]))

"""Break the code on purpose and see whether a test notices: python -m tests.breaks [NAME ...] [--list]

Each break in breaks.toml is a small change of meaning (a sign, a factor, a forgotten step) in one function, made in a
copy of the repository, with the tests that should go red. It is found by its syntax, so that spelling, comments and the
lines around it may change. "killed" is good; a break that "SURVIVED" shows a law that no test holds.
Names match by any part: `python -m tests.breaks locate cli`.
"""

import argparse
import ast
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = ("src", "evidence", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "Makefile", "README.md")


@dataclass(frozen=True)
class Break:
    """`old`, an expression or statement that `function` has once, becomes `new`; `tests` are pytest's arguments.

    `file` is below src/splinescope, or evidence/...; without a function, the whole file is meant.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str
    function: str = ""

    @property
    def source(self) -> Path:
        return Path(self.file) if self.file.startswith("evidence/") else Path("src", "splinescope", self.file)

    @property
    def test_files(self) -> list[Path]:
        return [
            Path(word.partition("::")[0])
            for word in shlex.split(self.tests)
            if word.startswith(("tests/", "evidence/tests/"))
        ]

    def applied(self, source: str) -> str:
        """The source with the break in it.

        Raises:
            LookupError: The file does not have the function, or the function has `old` not once.
        """
        tree = ast.parse(source)
        if not (place := within(tree, self.function.split(".") if self.function else [])):
            raise LookupError(f"{self.file} has no {self.function}")
        change = _Change(self.old, self.new)
        change.visit(place)
        if change.times != 1:
            raise LookupError(f"{self.old!r} occurs {change.times} times in {self.file} {self.function}")
        return ast.unparse(ast.fix_missing_locations(tree))


def within(tree: ast.AST, names: list[str]) -> ast.AST | None:
    """The function or class of that dotted name."""
    for name in names:
        named = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name]
        if not named:
            return None
        tree = named[0]
    return tree


class _Change(ast.NodeTransformer):
    """Puts `new` in place of every `old`, both given as source, and counts."""

    def __init__(self, old: str, new: str) -> None:
        (before,), (after,) = (ast.parse(text).body for text in (old, new))
        if isinstance(before, ast.Expr) and isinstance(after, ast.Expr):
            before, after = before.value, after.value
        self.old, self.new, self.times = ast.dump(before), after, 0

    def visit(self, node: ast.AST) -> ast.AST:
        if ast.dump(node) == self.old:
            self.times += 1
            return self.new
        return self.generic_visit(node)


class Found(NamedTuple):
    """What became of a break: "killed", "SURVIVED", "STALE" (it does not apply) or "ERROR" (nothing was learned)."""

    result: str
    seconds: float
    told: str


def breaks() -> list[Break]:
    """Those of breaks.toml."""
    return [Break(**entry) for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["break"]]


def main() -> int:
    """Run the chosen breaks; exit code 1 unless all were killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; all by default")
    parser.add_argument("--list", action="store_true", help="show the names")
    parser.add_argument("--each", type=float, metavar="SECONDS", default=600, help="give up on a break after this time")
    options = parser.parse_args()
    chosen = [b for b in breaks() if not options.names or any(part in b.name for part in options.names)]
    if options.list:
        print("\n".join(b.name for b in chosen))
        return 0
    seen: dict[str, Found] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        for one in chosen:
            seen[one.name] = found = tried(one, Path(folder), options.each)
            print(f"{found.result:9} {one.name} ({found.seconds:.0f} s) {found.told}", flush=True)
    killed, minutes = sum(f.result == "killed" for f in seen.values()), sum(f.seconds for f in seen.values()) / 60
    print(f"{killed} of {len(chosen)} killed, in {minutes:.0f} minutes")
    print("".join(f"  {found.result:9} {name}\n" for name, found in seen.items() if found.result != "killed"), end="")
    return int(killed < len(chosen))


def copy_to(folder: Path) -> None:
    """The repository as it stands, compiled kernels too."""
    for part in COPIED:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("_build", "node_modules"))
        else:
            shutil.copy2(source, folder)


def tried(one: Break, folder: Path, limit: float = 600) -> Found:
    """Whether a test notices the break. One that does not apply is an error: the list has to follow the code."""
    file = folder / one.source
    source = file.read_text(encoding="utf-8")
    try:
        broken = one.applied(source)
    except LookupError as error:
        return Found("STALE", 0.0, str(error))
    before, compiled, kept = file.stat(), file.parent / "__pycache__", folder / "kept"
    shutil.copytree(compiled, kept) if compiled.exists() else kept.mkdir()
    paths = os.pathsep.join(str(folder / part) for part in ("src", "evidence/src", ""))
    environment = {**os.environ, "PYTHONPATH": paths}
    file.write_text(broken, encoding="utf-8")
    started = time.monotonic()
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *shlex.split(one.tests)]
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return Found("ERROR", limit, "the tests did not end")
    finally:
        file.write_text(source, encoding="utf-8")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # what was compiled goes by its file's time
        shutil.rmtree(compiled, ignore_errors=True)
        kept.rename(compiled)
    seconds = round(time.monotonic() - started, 1)
    lines = run.stdout.strip().splitlines() or ["-"]
    if run.returncode < 0:  # the process crashed: that is seen
        return Found("killed", seconds, f"signal {-run.returncode}")
    if run.returncode not in (0, 1):  # pytest itself failed: nothing was learned
        return Found("ERROR", seconds, f"exit code {run.returncode}; {lines[-1]}")
    if not run.returncode:
        return Found("SURVIVED", seconds, lines[-1])
    red = next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), "")
    return Found("killed", seconds, red.partition(" - ")[0].partition(" ")[2])


if __name__ == "__main__":
    sys.exit(main())

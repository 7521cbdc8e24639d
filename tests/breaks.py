"""Break the code on purpose and see whether a test notices: python -m tests.breaks [NAME ...] [--list]

Each break in breaks.toml is a small change of meaning (a sign, a factor, a forgotten step), made in a copy of the
repository, with the tests that should go red. "killed" is good; a break that "survived" shows a law that no test holds.
Names match by any part: `python -m tests.breaks locate cli`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "Makefile", "README.md")


@dataclass(frozen=True)
class Break:
    """`old`, once in `file` (below src/splinescope), becomes `new`; `tests` are pytest's arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: str


def breaks() -> list[Break]:
    """Those of breaks.toml."""
    return [Break(**entry) for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["break"]]


def main() -> int:
    """Run the chosen breaks; exit code 1 if one survived."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; all by default")
    parser.add_argument("--list", action="store_true", help="show the names")
    options = parser.parse_args()
    chosen = [b for b in breaks() if not options.names or any(part in b.name for part in options.names)]
    if options.list:
        print("\n".join(b.name for b in chosen))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, Path(folder, part), ignore=shutil.ignore_patterns("_build", "node_modules"))
            else:
                shutil.copy2(source, folder)
        survivors = [b.name for b in chosen if not tried(b, Path(folder))]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed")
    return int(bool(survivors))


def tried(one: Break, folder: Path) -> bool:
    """Whether a test notices the break. One that does not apply is an error: the list has to follow the code."""
    file = folder / "src" / "splinescope" / one.file
    source = file.read_text(encoding="utf-8")
    if source.count(one.old) != 1:
        print(f"STALE     {one.name}: {one.old!r} occurs {source.count(one.old)} times in {one.file}", flush=True)
        return False
    file.write_text(source.replace(one.old, one.new), encoding="utf-8")
    started = time.monotonic()
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *one.tests.split()]
        environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
        run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    finally:
        file.write_text(source, encoding="utf-8")
    lines = run.stdout.strip().splitlines()
    if run.returncode not in (0, 1):  # pytest itself failed, or the process died: nothing was learnt, unless it crashed
        crashed = run.returncode < 0
        word = "killed" if crashed else "ERROR"
        print(f"{word:9} {one.name}: exit code {run.returncode}; {(lines or ['-'])[-1]}", flush=True)
        return crashed
    seen = next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), "")
    word = "killed" if run.returncode else "SURVIVED"
    print(f"{word:9} {one.name} ({time.monotonic() - started:.0f} s) {seen.partition(' - ')[0][:100]}", flush=True)
    return bool(run.returncode)


if __name__ == "__main__":
    sys.exit(main())

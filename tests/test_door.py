"""The door: few names at the top level, the rest in the parts, all of them known to type checkers."""

import importlib
import inspect
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import splinescope as ss

ROOT = Path(ss.__file__).parent
PARTS = sorted({folder.name for folder in ROOT.iterdir() if (folder / "__init__.py").exists()} - {"support"})
SCRIPT = Path(__file__).parent / "user_script.py"
HEAD = '"""A user\'s script that names all at the top level: mypy reads it with the package (`make types`)."""\n'


def public(part: str) -> ModuleType:
    return importlib.import_module(f"splinescope.{part}")


def test_the_top_level_holds_what_most_users_need() -> None:
    names = set(ss.__all__) - set(PARTS)
    assert len(names) <= 40
    assert {"tessellate", "Slice", "report", "local_complexity", "InputError"} <= names
    assert all(getattr(ss, name) is not None for name in ss.__all__)


def test_every_part_but_the_command_line_is_at_the_top_level() -> None:
    assert set(PARTS) - set(ss.__all__) == {"cli"}


def test_names_of_the_top_level_are_those_of_the_parts() -> None:
    for name in set(ss.__all__) - set(PARTS):
        thing = getattr(ss, name)
        part = thing.__module__.split(".")[1]
        assert part == "support" or getattr(public(part), name) is thing


@pytest.mark.parametrize("part", PARTS)
def test_a_part_lists_all_its_public_names(part: str) -> None:
    module = public(part)
    there = {
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(thing) and name != "annotations"
    }
    assert there == set(module.__all__)
    assert sorted(module.__all__) == sorted(set(module.__all__))


def test_the_parts_have_few_public_names() -> None:
    assert sum(len(public(part).__all__) for part in PARTS) <= 150


def user_script() -> str:
    """What `user_script.py` must be; a name that does not exist must not pass, lest all of them pass as Any.

    Names of the parts are imported by their `__init__`, which mypy reads.
    """
    names = ", ".join(f"ss.{name}" for name in sorted(set(ss.__all__) - set(PARTS)))
    body = textwrap.fill(f"{names},", 110, initial_indent="    ", subsequent_indent="    ")
    parts = [f"ss.{part}" for part in PARTS if part != "cli"]
    absent = "".join(f"{part}.nothing  # type: ignore[attr-defined]  # noqa: B018\n" for part in ["ss", *parts])
    return (
        f"{HEAD}\nimport torch\n\nimport splinescope as ss\n\nNAMES = (\n{body}\n)  # fmt: skip\n\n"
        "model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))\n"
        "view: ss.Slice = ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1)\n"
        "tiling: ss.Tiling = ss.tessellate(model, view)\n"
        "count: int = tiling.count\n"
        f"wrong: str = tiling.count  # type: ignore[assignment]\n{absent}"
    )


def test_the_script_that_types_are_checked_on_names_everything() -> None:
    """To write it anew: python -c "from tests.test_door import *; SCRIPT.write_text(user_script())"."""
    assert SCRIPT.read_text(encoding="utf-8") == user_script()


def test_importing_loads_no_torch_and_nothing_optional() -> None:
    command = "import splinescope, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", command], check=True, capture_output=True, text=True).stdout.split()
    )
    assert loaded.isdisjoint({"torch", "numpy", "scipy", "numba", "matplotlib", "click", "rich", "onnx", "sklearn"})


def test_the_first_use_of_the_parts_may_come_from_several_threads_at_once() -> None:
    """A finder that waits at each module has all threads in the middle of their imports at once."""
    script = """
import importlib, sys, threading, time
import numba, torch
errors = []

class Slow:
    def find_spec(self, name, path=None, target=None):
        time.sleep(0.005 * name.startswith("splinescope."))

def use(call, start):
    start.wait()
    try:
        call()
    except BaseException as error:
        errors.append(repr(error))

sys.meta_path.insert(0, Slow())
import splinescope as ss
from splinescope.support.drawing import drawing
calls = [lambda: drawing("page.write_page"), lambda: drawing("tiling.plot_tiles")]
names = ["tessellate", "local_complexity", "normalization_report", "Slice", "log_volume", "report", "plot"]
calls += [lambda name=name: getattr(ss, name) for name in names]
start = threading.Barrier(len(calls))
threads = [threading.Thread(target=use, args=(call, start)) for call in calls]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(" ".join(errors) or 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr

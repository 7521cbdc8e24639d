"""What is public keeps its signature: a change is told in CHANGELOG.md before `stable_api.txt` is written anew.

`python -m tests.test_stable` writes it.
"""

import hashlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from pydoc import locate

import splinescope as ss

from .test_api_page import PAGE
from .test_door import PARTS, public

ROOT = Path(__file__).resolve().parents[1]
PROMISED = ROOT / "tests" / "stable_api.txt"


def signatures() -> list[str]:
    """One line per public name, and per method or property of a class in the reference: how it is called."""
    names = {f"splinescope.{name}": getattr(ss, name) for name in set(ss.__all__) - set(PARTS)}
    for part in set(PARTS) - {"cli"}:
        names |= {f"splinescope.{part}.{name}": getattr(public(part), name) for name in public(part).__all__}
    called = {name: value for name, value in names.items() if callable(value)}
    results = {name: locate(name) for name in re.findall(r"autoclass:: (splinescope\.[\w.]+)", PAGE)}
    classes = {value for value in [*called.values(), *results.values()] if inspect.isclass(value)}
    members = [line for value in classes for line in _members(value)]
    return sorted([*(f"{name}{_called(value)}" for name, value in called.items()), *members])


def _members(value: type) -> Iterator[str]:
    """What a class of ours has beyond what every result has."""
    where = f"{value.__module__.split('.')[1]}: {value.__name__}"  # its file may move within the part
    for name in dir(value):
        owner = next((base for base in value.__mro__ if name in vars(base)), value).__module__
        if name.startswith("_") or not owner.startswith("splinescope.") or owner == "splinescope.support.display":
            continue
        member = getattr(value, name)
        if callable(member):
            yield f"{where}.{name}{_called(member)}"
        elif hasattr(member, "__get__"):
            yield f"{where}.{name}"


def _called(value: object) -> str:
    try:
        return str(inspect.signature(value))  # type: ignore[arg-type]
    except ValueError:  # an error class of Python's own making
        return "(...)"


def test_no_public_signature_changes_unsaid():
    promised = PROMISED.read_text(encoding="utf-8").splitlines()[1:]
    changed = sorted(set(promised) ^ set(signatures()))
    assert not changed, "Tell it in CHANGELOG.md, then run python -m tests.test_stable:\n" + "\n".join(changed)


if __name__ == "__main__":
    told = hashlib.sha256((ROOT / "CHANGELOG.md").read_bytes()).hexdigest()[:16]
    if PROMISED.exists() and PROMISED.read_text(encoding="utf-8").startswith(f"changelog {told}\n"):
        sys.exit("CHANGELOG.md says nothing new: a change of what is public is told there first.")
    PROMISED.write_text("\n".join([f"changelog {told}", *signatures()]) + "\n", encoding="utf-8")

"""What is public keeps its signature: a change is told in CHANGELOG.md before `stable_api.txt` is written anew.

`python -m tests.test_stable` writes it.
"""

import hashlib
import inspect
import sys
from pathlib import Path

import splinescope as ss

from .test_door import PARTS, public

ROOT = Path(__file__).resolve().parents[1]
PROMISED = ROOT / "tests" / "stable_api.txt"


def signatures() -> list[str]:
    """One line per public name: where it is found and how it is called."""
    names = {f"splinescope.{name}": getattr(ss, name) for name in set(ss.__all__) - set(PARTS)}
    for part in set(PARTS) - {"cli"}:
        names |= {f"splinescope.{part}.{name}": getattr(public(part), name) for name in public(part).__all__}
    called = {name: value for name, value in names.items() if callable(value)}
    return sorted(f"{name}{_called(value)}" for name, value in called.items())


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

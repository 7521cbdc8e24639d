"""The shell completes verbs, and does not load torch for it."""

from __future__ import annotations

import subprocess
import sys

from click.shell_completion import BashComplete

from splinescope.cli import main


def completed(words: list[str], incomplete: str) -> list[str]:
    shell = BashComplete(main, {}, "splinescope", "_SPLINESCOPE_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


def test_verbs_complete() -> None:
    assert completed([], "repr") == ["representation", "reproduce"]


def test_completing_is_quick_since_torch_stays_out() -> None:
    code = (
        "import sys; from click.shell_completion import BashComplete; from splinescope.cli import main\n"
        "BashComplete(main, {}, 's', '_S').get_completions([], 'tess')\n"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"

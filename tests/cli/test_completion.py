"""The shell completes verbs and ids of experiments, and does not load torch for it."""

from __future__ import annotations

import subprocess
import sys

from click.shell_completion import BashComplete

from splinescope import evidence
from splinescope.cli import main


def completed(words: list[str], incomplete: str) -> list[str]:
    shell = BashComplete(main, {}, "splinescope", "_SPLINESCOPE_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


def test_verbs_and_ids_of_experiments_complete() -> None:
    assert completed([], "repr") == ["representation", "reproduce"]
    assert completed(["reproduce"], "survey-") == [name for name in evidence.ids() if name.startswith("survey-")]
    assert completed(["reproduce", "survey-fig9"], "nothing-") == []


def test_completing_is_quick_since_torch_stays_out() -> None:
    code = (
        "import sys; from click.shell_completion import BashComplete; from splinescope.cli import main\n"
        "BashComplete(main, {}, 's', '_S').get_completions(['reproduce'], 'survey')\n"
        "print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False\n"

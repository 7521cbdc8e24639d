"""The examples of docs/operation.md, pasted: each passes the conformance test in place of the entry it explains."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from splinescope.network.ops.registry import OPERATIONS

from . import test_conformance as conformance

PAGE = (Path(__file__).parents[3] / "docs" / "operation.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LABELS = {"softshrink": "softshrink", "movedim": "t", "maximum": "maximum"}
"""Operation of an example -> its label in the table."""


_float64 = conformance._float64


def test_the_page_shows_each_way_to_add_an_operation():
    assert [re.findall(r'@(\w+)\("(\w+)"', code) for code in EXAMPLES] == [
        [("activation", "softshrink")],
        [("affine", "movedim")],
        [("fold", "maximum")],
    ]


def test_the_examples_work_when_pasted_into_a_fresh_interpreter():
    """The user's entry is the one that is used."""
    use = """
import torch, splinescope as ss
from splinescope.network.ops import operation
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softshrink())
assert ss.local_complexity(net, torch.randn(2, 2), radius=0.1).sites[0].op == "softshrink"
assert operation("softshrink").rule.__module__ == operation("movedim").rule.__module__ == "__main__"
"""
    code = "\n".join([*EXAMPLES, use])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("code", EXAMPLES, ids=list(LABELS))
def test_the_pasted_example_conforms(code, monkeypatch):
    (name,) = re.findall(r'@\w+\("(\w+)"', code)
    entry = OPERATIONS.pop(name)
    shape = conformance.ALL[LABELS[name]][1]
    monkeypatch.setattr(conformance, "ALL", {LABELS[name]: conformance.ALL[LABELS[name]]})
    conformance.traced.cache_clear()
    try:
        exec(code, {})
        assert OPERATIONS[name].rule is not entry.rule is not None
        for form in ("alone", "inside"):
            conformance.test_program_equals_the_model_and_steps_are_what_they_claim(shape, form)
        if OPERATIONS[name].bend is not None:
            conformance.test_watching_a_forward_pass_and_reading_the_graph_find_the_same_folds(shape)
    finally:
        OPERATIONS[name] = entry
        conformance.traced.cache_clear()

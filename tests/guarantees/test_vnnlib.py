"""The reader of VNN-LIB: what files say, in either version, and where they are wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

import splinescope as ss
from splinescope.guarantees import Property, read_vnnlib
from tests.real import FOLDER, needs_real_networks

HEAD = "(declare-const X_0 Real)\n(declare-const X_1 Real)\n(declare-const Y_0 Real)\n(declare-const Y_1 Real)\n"


def read(tmp_path: Path, text: str) -> Property:
    file = tmp_path / "given.vnnlib"
    file.write_text(text)
    return read_vnnlib(file)


def meets(given: Property, x: list[float], y: list[float]) -> bool:
    """Whether an input with its outputs is a counterexample, by the clauses themselves."""
    assert not callable(given.clauses)
    for clause in given.clauses:
        value = clause.outputs @ np.array(y) + clause.inputs @ np.array(x) - clause.ends
        if np.where(clause.strict, value < 0, value <= 0).all():
            return True
    return False


def test_conditions_are_read_as_they_are_written(tmp_path: Path) -> None:
    text = """
        ; a box
        (assert (<= 0 X_0 1)) (assert (and (>= X_1 -1e-1) (<= X_1 .5)))
        (assert (or (and (<= Y_0 Y_1) (> Y_1 2.5)) (>= (+ Y_0 (* 2 X_0) (- X_1)) (* 3 (- Y_1 1)))))"""
    file = tmp_path / "given.vnnlib.gz"
    file.write_bytes(gzip.compress((HEAD + text).encode()))
    given = read_vnnlib(file)
    rng = np.random.default_rng(0)
    for _ in range(300):
        x, y = rng.uniform(-0.6, 1.4, 2).tolist(), rng.normal(0, 3, 2).tolist()
        inside = 0 <= x[0] <= 1 and -0.1 <= x[1] <= 0.5
        bad = (y[0] <= y[1] and y[1] > 2.5) or (y[0] + 2 * x[0] - x[1] >= 3 * (y[1] - 1))
        assert meets(given, x, y) == (inside and bad)
    strict = read(tmp_path, HEAD + "(assert (= X_0 0.5)) (assert (< Y_0 1)) (assert (<= Y_1 1))")
    assert meets(strict, [0.5, 0.0], [0.9, 1.0])
    assert not meets(strict, [0.5, 0.0], [1.0, 1.0])
    assert not meets(strict, [0.4, 0.0], [0.9, 1.0])


def test_version_two_is_read(tmp_path: Path) -> None:
    given = read(tmp_path, """(vnnlib-version <2.0>)
        (declare-network f (declare-input X Real [1,2]) (declare-output Y Real [2]))
        (declare-network g (equal-to f) (declare-input A Real [1,2]) (declare-output B Real [2]))
        (assert (== X[0,1] A[0,1])) (assert (<= Y[0] B[1]))""")  # fmt: skip
    assert [(n.name, n.inputs, n.outputs, n.equal_to) for n in given.networks] == [
        ("f", (1, 2), (2,), None), ("g", (1, 2), (2,), "f"),
    ]  # fmt: skip
    assert meets(given, [0, 7, 0, 7], [1, 0, 0, 2])
    assert not meets(given, [0, 7, 0, 6], [1, 0, 0, 2])
    assert not meets(given, [0, 7, 0, 7], [3, 0, 0, 2])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("(assert (<= X_0 1)", 5, "never closed"),
        ("(assert (<= X_0 1)))", 5, "no opening one"),
        ("\n(assert (<= Z_0 1))", 6, "'Z_0' is neither"),
        ("(assert (<= (* X_0 Y_0) 1))", 5, "not linear"),
        ("(assert (<= X_0))", 5, "compares two numbers"),
        ("(assert (implies (<= X_0 1) (<= Y_0 1)))", 5, "'implies' is not a condition"),
        ("(assert)", 5, "assert takes one condition"),
        ("(declare-const X_0 Real)", 5, "declared twice"),
        ("(declare-const Q Real)", 5, "X_0, X_1"),
        ("hello", 5, "outside of all brackets"),
        ("(minimize Y_0)", 5, "'minimize' is not read"),
        ("", 1, "nothing is asserted"),
        ("(assert (<= X_0 1e99999))", 5, "neither a number"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(ss.FileFormatError, match=f"given.vnnlib, line {line}: .*{words}"):
        read(tmp_path, HEAD + text)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD + 20 * "(assert (or (<= Y_0 1) (<= Y_1 1)))\n", "cases"),  # a disjunction without end
        (b"\xff\xfe\x00" * 9, "UTF-8"),
        (gzip.compress(b"(assert)" * 99)[:20], "UTF-8"),
        *((f"{HEAD}(assert {each})", r"line 5: .*number")  # that float64 cannot hold
          for each in ("(<= Y_0 1e400)", "(<= (* 1e-400 Y_0) -1e-398)", f"(<= Y_0 {'1' * 5000})")),
    ],
    ids=range(6),
)  # fmt: skip
def test_what_cannot_be_held_or_is_no_text_is_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    file = tmp_path / "given.vnnlib"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ss.FileFormatError, match=words):
        read_vnnlib(file)


def test_conditions_that_no_output_changes_are_told_as_such(tmp_path: Path) -> None:
    net, box = torch.nn.Linear(2, 2), "".join(f"(assert (<= -1 X_{i} 1))\r\n" for i in range(2))
    never, always = ("(< Y_0 Y_0)", "false", "(or)", "(< X_1 X_1)"), ("(<= Y_0 Y_0)", "true", "(and)", "(>= 1.E0 1)")
    for asked, holds, words in (
        *((a, True, "any network") for a in never),
        *((a, False, "every input") for a in always),
    ):
        verdict = ss.verify(net, read(tmp_path, f"{HEAD}{box}(assert {asked})"))
        assert (verdict.holds, words in verdict.reason) == (holds, True)


@needs_real_networks
@pytest.mark.parametrize(
    ("network", "asked", "holds"),
    [
        ("acasxu/ACASXU_run2a_1_1_batch_2000.onnx", "acasxu/prop_3.vnnlib", True),
        ("acasxu/ACASXU_run2a_2_2_batch_2000.onnx", "acasxu/prop_2.vnnlib", False),
        ("acasxu/ACASXU_run2a_1_9_batch_2000.onnx", "acasxu/prop_7.vnnlib", False),  # by less than 4e-4 near a face
        ("rl/cartpole.onnx", "rl/cartpole_case_unsafe_36.vnnlib", False),
        ("rl/lunarlander.onnx", "rl/lunarlander_case_unsafe_91.vnnlib", True),
        ("tll/tllBench_n=2_N=M=8_m=1_instance_0_3.onnx", "tll/property_N=8_3.vnnlib", True),
    ],
)
def test_verdicts_are_those_of_the_competition(network: str, asked: str, holds: bool) -> None:
    verdict = ss.verify(FOLDER / "vnnlib" / network, FOLDER / "vnnlib" / asked)
    assert verdict.holds is holds
    assert verdict.rigorous
    if not holds:
        assert verdict.witness is not None
        assert verdict.witness.confirmed in (True, None)

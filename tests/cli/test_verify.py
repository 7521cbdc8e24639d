"""The verb `verify`: its words, its exit codes, and what the competition's scripts read."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

from splinescope.cli import main

PROPERTY = """(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(assert (<= 0 X_0 1)) (assert (<= 0 X_1 1))
(assert (<= Y_0 {end}))
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    """relu(x0) + relu(x1) + 1: from 1 to 3 on the unit square."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), (torch.eye(2), torch.zeros(2), torch.ones(1, 2), torch.ones(1)),
                                    strict=True):  # fmt: skip
            parameter.copy_(value)
    path = tmp_path_factory.mktemp("nets") / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's own
        torch.onnx.export(model, (torch.zeros(1, 2),), path, dynamo=False)
    return str(path)


def run(net: str, tmp_path: Path, end: float | str, *options: str) -> tuple[int, str]:
    file = tmp_path / "p.vnnlib"
    file.write_text(PROPERTY.format(end=end))
    result = CliRunner().invoke(main, ["verify", net, str(file), *options])
    return result.exit_code, result.output


def test_it_says_whether_a_property_holds(net: str, tmp_path: Path) -> None:
    code, text = run(net, tmp_path, 0.5, "--margin")
    assert code == 0
    assert text.startswith("holds\n")
    assert "margin 0.5" in text
    code, text = run(net, tmp_path, 1.5, "--json", "--complete")
    found = json.loads(text)
    assert code == 10
    assert found["holds"] is False
    assert sum(found["witness"]["x"]) + 1 <= 1.5
    assert found["unsafe"]["share"] == pytest.approx(0.125)


def test_the_competition_reads_it(net: str, tmp_path: Path) -> None:
    assert run(net, tmp_path, 0.5, "--format", "vnncomp") == (0, "unsat\n")
    code, text = run(net, tmp_path, 1.5, "--format", "vnncomp")
    assert code == 0
    assert text.startswith("sat\n((X_0 ")
    assert text.rstrip().endswith("))")
    code, text = run(net, tmp_path, 0.5, "--format", "vnncomp", "--json")
    assert code == 2
    assert "not both" in text


def run_two(net: str, folder: Path, words: str, *options: str) -> Result:
    """The verb on two networks f and g of two inputs each, with these words of the file about them."""
    declared = "(declare-network {0} (declare-input X{0} Real [1,2]) (declare-output Y{0} Real [1,1]))\n"
    (folder / "two.vnnlib").write_text(f"{declared.format('f')}{declared.format('g')}(assert (and {words}))")
    return CliRunner().invoke(main, ["verify", net, net, str(folder / "two.vnnlib"), *options])


def test_several_networks_come_in_the_order_of_the_file(net: str, tmp_path: Path) -> None:
    same = "(= Xf[0,0] Xg[0,0]) (= Xf[0,1] Xg[0,1]) (<= 0 Xf[0,0] 1) (<= 0 Xf[0,1] 1)"
    result = run_two(net, tmp_path, f"{same} (>= Yf[0,0] (+ Yg[0,0] 0.5))")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("holds\n")


def test_a_witness_has_the_names_of_the_file(net: str, tmp_path: Path) -> None:
    """Every network's own, equal inputs among them, though they are one input of the search."""
    apart = "(= Xf[0,0] Xg[0,0]) (<= 0 Xf[0,0] 1) (<= 0 Xf[0,1] 0.25) (<= 0.75 Xg[0,1] 1)"
    result = run_two(net, tmp_path, f"{apart} (>= Yg[0,0] (+ Yf[0,0] 0.5))", "--format", "vnncomp")
    lines = [line.strip("()").split() for line in result.output.split("\n")[1:-1]]
    value = {name: float(number) for name, number in lines}
    assert list(value) == ["Xf[0,0]", "Xf[0,1]", "Xg[0,0]", "Xg[0,1]", "Yf[0,0]", "Yg[0,0]"]
    assert value["Xf[0,0]"] == value["Xg[0,0]"]
    assert value["Xf[0,1]"] <= 0.25
    assert value["Xg[0,1]"] >= 0.75
    assert value["Yg[0,0]"] >= value["Yf[0,0]"] + 0.5
    for name in "fg":
        assert value[f"Y{name}[0,0]"] == pytest.approx(value[f"X{name}[0,0]"] + value[f"X{name}[0,1]"] + 1, abs=1e-6)


def test_a_malformed_file_ends_with_its_line_and_code_two(net: str, tmp_path: Path) -> None:
    code, text = run(net, tmp_path, "(")
    assert code == 2
    assert "p.vnnlib, line 5" in text

"""The lint finds what is planted, and nothing where nothing is wrong; the verb prints it."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import splinescope as ss
from splinescope.cli import main
from splinescope.normalization import initialize_, normalization_report
from splinescope.normalization.report import NormalizationReport

from .. import cases
from ..real import cifar_images, needs_real_networks, resnet20


def points(n: int = 200) -> torch.Tensor:
    return torch.randn(n, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def network() -> nn.Sequential:
    torch.manual_seed(0)
    net = cases.mlp(4, 10, 8, 9, 3).double()
    initialize_(net, points())
    return net


def kinds(report: NormalizationReport) -> set[tuple[str, str, int]]:
    return {(f.kind, f.where, f.channels) for f in report.findings}


def test_a_normalized_network_has_no_findings():
    report = normalization_report(network(), points())
    assert report.ok
    assert "no findings" in report.summary()


def test_planted_faults_are_found():
    net = network()
    with torch.no_grad():
        net[0].bias[:2] -= 100.0
        net[0].bias[2] += 100.0
        net[0].weight[3], net[0].bias[3] = 0.0, 1.0
    report = normalization_report(net, points())
    first = {(kind, units) for kind, path, units in kinds(report) if path == "0 1 relu"}
    assert first == {("dead", 2), ("always on", 1), ("far folds", 3), ("constant", 1)}
    assert "initialize_" in report.summary()
    assert json.loads(json.dumps(report.records()))["rows"] == 200


def test_batch_norm_is_not_advised_to_networks_that_have_it():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=1.0), nn.ReLU()).double()
    net.train()(points())
    with torch.no_grad():
        net[1].bias[:2] = torch.tensor([-50.0, 50.0])  # a learned shift
    found = normalization_report(net.eval(), points()).findings
    assert {f.kind for f in found} == {"dead", "always on", "far folds"}
    assert all("shift" in f.advice and "normalize" not in f.advice for f in found)


def test_a_layer_of_another_scale_is_found():
    net = network()
    with torch.no_grad():
        net[2].weight *= 1e4
        net[2].bias *= 1e4
        net[4].weight /= 1e4  # so that the layer after it is as it was
    found = normalization_report(net, points()).of_kind("out of balance")
    assert [finding.where for finding in found] == ["1 3 relu"]


def test_stale_statistics_are_found_and_refreshing_helps():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, momentum=1.0), nn.ReLU()).double()
    net.train()(points() * 3 + 4)
    assert ("stale statistics", "1", 6) in kinds(normalization_report(net.eval(), points()))
    before = {k: v.clone() for k, v in net.state_dict().items()}
    normalization_report(net, points())
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    net.train()(points())
    assert not normalization_report(net.eval(), points()).of_kind("stale statistics")


def test_small_batches_are_found_in_networks_with_batch_norm_only():
    norm = cases.model("batch norm")
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert normalization_report(norm, list(x.split(1))).of_kind("small batches")
    assert not normalization_report(norm, list(x.split(32))).of_kind("small batches")
    assert not normalization_report(norm, x).of_kind("small batches")
    assert not normalization_report(cases.model("two layers"), list(x.split(4))).of_kind("small batches")


def test_train_mode_and_missing_data_are_told():
    with pytest.raises(ss.UnsupportedModelError, match="eval"):
        normalization_report(cases.model("batch norm").train(), torch.zeros(4, 2))
    with pytest.raises(ss.InputError, match="None"):
        normalization_report(cases.model("batch norm"), None)
    with pytest.raises(ss.InputError, match="at least 2 rows"):
        normalization_report(cases.model("batch norm"), torch.zeros(1, 2))
    flat = normalization_report(cases.model("batch norm"), torch.ones(5, 2))  # constant features
    assert {f.kind for f in flat.findings} == {"constant"}
    assert "inf" in flat.summary()


SOURCE = """
import torch
from torch import nn
def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
"""


def test_the_verb_prints_tables_and_json(tmp_path, monkeypatch):
    (tmp_path / "toy_nets_for_normalization.py").write_text(SOURCE)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((40, 6)) + 5)
    monkeypatch.chdir(tmp_path)
    arguments = ["normalization", "toy_nets_for_normalization:make", "--data", "x.npy"]
    table = CliRunner().invoke(main, [*arguments, "--batch-size", "4"])
    assert table.exit_code == 0, table.output
    assert "stale statistics" in table.output
    assert "small batches" in table.output
    out = CliRunner().invoke(main, [*arguments, "--json"])
    assert out.exit_code == 0, out.output
    assert json.loads(out.stdout)["rows"] == 40
    bad = CliRunner().invoke(main, [*arguments[:2], "--data", "nothing.npy"])
    assert bad.exit_code == 2


@needs_real_networks
def test_dead_channels_of_the_trained_resnet_are_found():
    model, x = resnet20(), cifar_images()[0]
    report = normalization_report(model, list(x.split(50)))
    assert len(report.distances) == 19
    with torch.no_grad():
        first = model.bn1(model.conv1(x)).movedim(1, 0).flatten(1)
    assert report.of_kind("dead")[0].channels == int((first.max(1).values <= 0).sum()) > 0
    assert not report.of_kind("stale statistics")  # the images are of the set it was trained on
    assert report.batch_sizes == (50, 50)


@pytest.mark.parametrize("kind", [nn.ReLU6, nn.Hardtanh])
def test_a_bend_that_no_data_reaches_makes_no_channel_sick(kind):
    torch.manual_seed(0)
    layer, x = nn.Linear(2, 6), 0.1 * torch.randn(200, 2)
    nn.init.zeros_(layer.bias)
    once, twice = (normalization_report(nn.Sequential(layer, act, nn.Linear(6, 2)), x) for act in (nn.ReLU(), kind()))
    if kind is nn.ReLU6:  # the same function on these data
        assert once.ok
        assert twice.ok
        assert twice.distances.records()[0]["splits"] == 1.0
    else:  # data between the two bends: linear, one finding a channel
        assert {(f.kind, f.channels, f.of) for f in twice.findings} >= {("always on", 6, 6)}
    with torch.no_grad():
        layer.bias.fill_(50.0)  # beyond the upper bend
    assert {f.kind for f in normalization_report(nn.Sequential(layer, kind()), x).findings} >= {
        "always on",
        "far folds",
    }

"""One page about a network: every block against the function it stands for, and what happens where one cannot be."""

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.landscape.spectrum import extreme_eigenvalues
from splinescope.reports import near_data
from splinescope.reports.near_data import input_margin
from splinescope.reports.report import BLOCKS
from tests.landscape.test_command import onnx_file

from .test_report_calls import Skipping


def quiet(model, x, y=None, **options):
    return ss.report(model, x, y, **{"out": None, "progress": False, **options})


@pytest.fixture(scope="module")
def found(classifier, moons):
    return quiet(classifier, *moons)


def test_every_block_of_a_classifier_is_measured_but_the_generators(found):
    states = {block.key: block.state for block in found}
    assert list(states) == list(BLOCKS)
    assert states.pop("volume") == "not applicable"
    assert set(states.values()) == {"measured"}
    assert "at least twice as many" in found["volume"].reason


def test_numbers_are_those_of_the_functions_named(found, classifier, moons):
    x, _ = moons
    numbers = {block.key: block.numbers for block in found}
    spacing = ss.complexity.data_spacing(x)
    assert numbers["complexity"]["spacing of the data"] == pytest.approx(spacing)
    counted = ss.local_complexity(classifier, x, radius=spacing / 2)
    assert numbers["complexity"]["mean folds"] == pytest.approx(float(counted.total.double().mean()))
    assert numbers["complexity"]["share of neurons"] == pytest.approx(float(counted.total.double().mean()) / 24)
    tiling = ss.tessellate(classifier, ss.Slice.through(*x[[0, 1, 2]].double(), pad=0.15))
    assert numbers["tiles"]["tiles"] == tiling.count
    assert numbers["tiles"]["boundary length"] == pytest.approx(tiling.decision_boundary().length)
    assert sum(numbers["tiles"]["share of area by class"].values()) == pytest.approx(1.0)
    margin = input_margin(ss.trace(classifier, x).program(), x.double().numpy())
    assert numbers["margins"]["least edge"] == pytest.approx(margin.edge.min())
    tile = ss.tile_at(classifier, x[0].double())
    assert (numbers["walls"]["walls"], numbers["walls"]["radius"]) == (len(tile.facets), pytest.approx(tile.radius))
    assert numbers["network"]["units"] == 24
    ranks = ss.representation_geometry(classifier, x).series("effective_rank")
    assert numbers["depth"]["effective rank before the output"] == pytest.approx(float(ranks[-2]))


def test_curvature_is_told_with_and_without_skips(moons):
    net = Skipping().eval()
    numbers = quiet(net, *moons, include=["curvature"])["curvature"].numbers
    assert numbers["skips"] == 1
    operator = ss.curvature(ss.landscape.without_skips(net, moons[0]), *moons, loss="cross_entropy")
    assert numbers["largest eigenvalue without skips"] == pytest.approx(float(extreme_eigenvalues(operator)[0]))
    assert numbers["largest eigenvalue without skips"] != pytest.approx(numbers["largest eigenvalue"])


def test_a_network_from_a_file_has_the_parameters_of_the_one_it_was_written_from(moons, tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 3)).eval()
    onnx_file(net, tmp_path / "n.onnx")
    keys = ["network", "curvature", "surface"]
    read, made = (quiet(model, *moons, include=keys) for model in (ss.load(tmp_path / "n.onnx"), net))
    assert [block.state for block in read] == ["measured"] * 3
    assert read["network"].numbers["parameters"] == made["network"].numbers["parameters"] == 39
    for key, name in (("curvature", "largest eigenvalue"), ("surface", "middle")):
        assert read[key].numbers[name] == pytest.approx(made[key].numbers[name], rel=1e-4)


def test_losses_follow_the_ending_and_the_targets(moons):
    x, y = moons
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3))
    middles = [
        quiet(nn.Sequential(body, *ending).eval(), x, y, include=["surface"])["surface"].numbers["middle"]
        for ending in ((), (nn.Softmax(1),), (nn.LogSoftmax(1),))
    ]
    assert middles == pytest.approx([middles[0]] * 3, rel=1e-4)
    single = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 1)).eval()
    numbers = quiet(single, x, y % 2, include=["surface"])["surface"].numbers
    with torch.no_grad():
        expected = nn.functional.binary_cross_entropy_with_logits(single(x)[:, 0], (y % 2).float())
    assert numbers["middle"] == pytest.approx(float(expected), rel=1e-4)
    assert quiet(single, x, torch.randn(60, 1), include=["surface"])["surface"].numbers["loss"] == "squared error"
    flat, column = (quiet(single, x, t, include=["surface"])["surface"].numbers for t in (x[:, 0], x[:, :1]))
    assert flat == column
    assert "shape (2,)" in quiet(single, x, torch.randn(60, 2), include=["surface"])["surface"].reason


def test_only_classifiers_have_a_decision_boundary(classifier, moons):
    x, y = moons
    assert quiet(classifier, x, y, include=["tiles"])["tiles"].numbers["boundary length"] is not None
    regression = quiet(classifier, x, torch.randn(60, 3), include=["tiles"])["tiles"]
    assert regression.numbers["boundary length"] is None
    assert "class" not in regression.reading


def test_a_generator_gets_its_volume_factors():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 12)).eval()
    z = torch.randn(40, 2)
    found = quiet(generator, z, include=["volume", "surface"])
    logs = ss.log_volume(generator, z).log_pseudo
    assert found["volume"].numbers["median log volume"] == pytest.approx(float(logs.quantile(0.5)), abs=1e-9)
    assert found["surface"].reason == "a loss needs targets: give y."


def test_what_is_not_piecewise_affine_says_so_and_the_rest_goes_on(moons):
    smooth = nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).eval()
    found = quiet(smooth, *moons, include=["network", "complexity", "tiles", "depth"])
    assert found["tiles"].state == "not applicable"
    assert "gelu" in found["tiles"].reason.lower()
    assert "layer_norm" in found["tiles"].reason.lower()
    assert found["complexity"].state == found["depth"].state == "measured"
    assert any("gelu" in line.lower() for line in found["network"].numbers["refusal"])


def test_a_smooth_network_is_tiled_within_a_tolerance_that_is_stated(moons):
    torch.manual_seed(0)
    smooth = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).eval()
    block = quiet(smooth, *moons, include=["tiles"])["tiles"]
    assert block.state == "measured", block.reason
    with torch.no_grad():
        outputs = smooth(moons[0])
    span = float((outputs.amax(0) - outputs.amin(0)).max())
    numbers = block.numbers
    assert numbers["tolerance"] == pytest.approx(0.01 * span, rel=0.05)  # of a spread sample of the data
    assert block.certainty == "bound"
    assert 0 < numbers["measured deviation"] <= numbers["proven bound"] <= numbers["tolerance"]
    assert f"within a tolerance of {numbers['tolerance']:.2g}" in block.scope
    assert f"tolerance={numbers['tolerance']:.2g}" in block.call
    assert "xact" not in block.summary()
    traced = ss.trace(smooth, moons[0][:2], smooth=True)
    again = quiet(traced, *moons, include=["tiles", "folds", "margins"])
    assert again["tiles"].numbers == numbers
    assert again["folds"].state == again["margins"].state == "not applicable"
    assert "1 (tanh)" in again["folds"].reason


def test_sequences_have_a_loss_at_every_place():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3)).eval()
    x, y = torch.randn(5, 7, 2), torch.arange(35).reshape(5, 7) % 3
    found = quiet(net, x, y, include=["surface", "curvature"])
    assert found["surface"].numbers["loss"] == found["curvature"].numbers["loss"] == "cross-entropy per place"
    with torch.no_grad():
        expected = nn.functional.cross_entropy(net(x).reshape(35, 3), y.reshape(35))
    assert found["surface"].numbers["middle"] == pytest.approx(float(expected), rel=1e-4)
    flat = ss.curvature(net, x.reshape(35, 2), y.reshape(35), loss="cross_entropy")
    largest = float(extreme_eigenvalues(flat)[0])
    assert found["curvature"].numbers["largest eigenvalue"] == pytest.approx(largest)


def test_token_ids_are_told_where_to_go():
    with pytest.raises(ss.InputError, match=r"embeddings.*token_geometry"):
        quiet(nn.Embedding(9, 2), torch.zeros(4, 3, dtype=torch.long))


def test_an_error_inside_a_block_is_shown_and_the_others_are_measured(classifier, moons, monkeypatch):
    def broken(_subject):
        raise RuntimeError("out of luck")

    monkeypatch.setitem(BLOCKS, "folds", ("Folds and data", broken))
    found = quiet(classifier, *moons, include=["network", "folds"])
    assert found["network"].state == "measured"
    assert (found["folds"].state, found["folds"].reason) == ("failed", "RuntimeError: out of luck")
    assert "1 failed" in repr(found)


def test_no_clock_decides_what_a_plane_shows(classifier, moons, monkeypatch):
    """The more units a network has, the fewer tiles its plane may have; how long that takes is asked nowhere."""
    asked = []
    real = near_data.tessellate
    monkeypatch.setattr(near_data, "tessellate", lambda *args, **given: asked.append(given) or real(*args, **given))
    numbers = quiet(classifier, *moons, include=["tiles"])["tiles"].numbers
    assert {given.get("time_limit") for given in asked} == {None}
    assert asked[-1]["max_tiles"] == 4 * numbers["most tiles"]
    assert numbers["most tiles"] == 400_000
    wide = nn.Sequential(nn.Linear(2, 100_000), nn.ReLU(), nn.Linear(100_000, 2)).eval()
    assert near_data.most_tiles(ss.trace(wide, moons[0][:2])) == 4_000
    smooth = nn.Sequential(nn.Linear(2, 100_000), nn.GELU(), nn.Linear(100_000, 2)).eval()
    assert near_data.most_tiles(ss.trace(smooth, moons[0][:2], smooth=True)) == 1_000


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "net"}, "model must be a torch.nn.Module"),
        ({"x": torch.zeros(5)}, "x must hold at least 2"),
        ({"x": torch.zeros(5, 2, dtype=torch.long)}, "floating-point"),
        ({"x": torch.full((5, 2), torch.nan)}, "finite"),
        ({"y": torch.zeros(4)}, "one row per input, 60"),
        ({"include": ["tile"]}, "include must hold names among network, folds"),
        ({"include": "tiles"}, "write \\['tiles'\\]"),
        ({"exclude": list(BLOCKS)}, "no block"),
        ({"out": "no/such/folder/r.html"}, "folder .* does not exist"),
        ({"out": "numbers.json"}, "end it in .html"),
    ],
)
def test_bad_input_is_told(classifier, moons, change, told):
    given = {"model": classifier, "x": moons[0], "y": moons[1], "out": None, "progress": False, **change}
    with pytest.raises(ss.InputError, match=told):
        ss.report(given.pop("model"), given.pop("x"), given.pop("y"), **given)

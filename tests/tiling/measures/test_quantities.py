"""One table of quantities per tile: what is in it is everywhere; its color ranges leave out one percent."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import splinescope as ss
from splinescope.cli import main
from splinescope.cli._outputs import quantity_name
from splinescope.tiling.measures.quantities import QUANTITIES, Quantity, available, corner_depths, quantity

from ... import cases

DOCS = Path(__file__).parents[3] / "docs" / "tiling.md"


@pytest.fixture
def registered():
    """A quantity of our own, for planes only."""

    @quantity("first_corner", given=lambda tiling: tiling.dimension == 2)
    def first_corner(tiling: ss.Tiling, output: int) -> Quantity:
        first = tiling.tiles.corners[tiling.tiles.offsets[:-1]]
        return Quantity("first_corner", "height of the first corner", tiling.vertices[first, 1])

    yield "first_corner"
    del QUANTITIES["first_corner"]


def test_a_registered_quantity_is_everywhere(registered, tmp_path):
    tiling = cases.tiling("two layers")
    expected = np.array([tiling.tile(k)[0, 1] for k in range(tiling.count)])
    np.testing.assert_array_equal(tiling.quantity(registered).values, expected)
    assert registered in available(tiling)
    assert registered not in available(cases.tiling("line"))
    tiling.save(tmp_path / "a.tiling")
    with pytest.raises(ss.InputError, match=registered):  # the refusal of an unknown name lists it
        tiling.quantity("nothing")


def test_a_registered_quantity_is_in_pictures_and_pages(registered, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra 'plot' is not installed").use("Agg")
    tiling = cases.tiling("two layers")
    assert tiling.plot(color=registered).figure.axes[1].get_ylabel() == "height of the first corner"
    tiling.save(tmp_path / "a.tiling")
    show = ["show", str(tmp_path / "a.tiling"), "--html", str(tmp_path / "a.html"), "--color"]
    result = CliRunner().invoke(main, [*show, registered])
    assert result.exit_code == 0, result.output
    from splinescope.plot.frame import tiling_frame

    assert registered in [q["name"] for q in tiling_frame(tiling)["quantities"]]
    refused = CliRunner().invoke(main, [*show, "nothing"])
    assert refused.exit_code == 2
    assert registered in refused.output


def test_the_command_line_takes_every_quantity():
    for name in QUANTITIES:
        assert quantity_name.convert(name, None, None) == name


def test_every_quantity_is_explained():
    table = re.findall(r"^\| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert table == list(QUANTITIES)


def test_colors_of_logarithms_leave_out_one_percent_of_the_area_at_each_end():
    values = np.random.default_rng(0).permutation(np.arange(1.0, 1001))
    assert Quantity("x", "x", values, log=True, areas=np.ones(1000)).limits == (10.0, 990.0)
    areas = np.where(values <= 500, 3.0, 1.0)  # 2,000 in all: 20 at each end
    assert Quantity("x", "x", values, log=True, areas=areas).limits == (7.0, 980.0)
    assert Quantity("x", "x", values, areas=areas).limits == (1.0, 1000.0)  # not on a plain scale
    values[values < 100] = 0.0  # a logarithm does not show these
    assert Quantity("x", "x", values, log=True, areas=np.ones(1000)).limits == (109.0, 991.0)


@pytest.mark.parametrize("name", ["two layers", "residual", "max-pool", "line"])
def test_depths_of_walls_are_those_of_their_sites(name):
    tiling = cases.tiling(name)
    depth = np.concatenate([np.full(site.cuts, site.depth) for site in tiling.sites])
    expected = [0 if label < 0 else depth[label] for label in tiling.corner_labels]
    np.testing.assert_array_equal(corner_depths(tiling), expected)

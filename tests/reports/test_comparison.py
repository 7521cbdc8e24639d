"""Networks side by side: each has its own numbers, on common scales."""

import json
import re

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.reports.typical import MAIN


def test_networks_side_by_side_give_each_its_own_numbers(classifier, moons, tmp_path):
    torch.manual_seed(2)
    other = nn.Sequential(nn.Linear(2, 40), nn.ReLU(), nn.Linear(40, 3)).eval()
    found = ss.compare_models(
        {"a <b>": classifier, "wide": other},
        *moons,
        out=tmp_path / "c.html",
        include=["tiles", "network"],
        progress=False,
    )
    alone = ss.report(other, *moons, out=None, include=["tiles"], progress=False)["tiles"].numbers
    assert found["wide"]["tiles"].numbers == alone
    row = found.main_numbers()[MAIN["tiles"]]
    assert row["wide"] == alone[MAIN["tiles"]] != row["a <b>"]
    assert all(name in found.summary() for name in ("a <b>", "wide"))
    page = (tmp_path / "c.html").read_text()
    assert "a &lt;b&gt;" in page
    assert "<b>" not in page.replace("<b>not applicable</b>", "")
    assert set(json.loads((tmp_path / "c.json").read_text())) == {"a <b>", "wide"}
    cells = re.findall(r"<th scope='row'>(.*?)</th><td>(.*?)</td><td>(.*?)</td>", page)
    assert cells == [(MAIN["tiles"], f"{row['a <b>']:.4g}", f"{row['wide']:.4g}")]  # the answer stands on top
    assert page.index("<table>") < page.index("<section id=")


def test_one_network_is_no_comparison(classifier, moons):
    with pytest.raises(ss.InputError, match="at least two"):
        ss.compare_models({"a": classifier}, *moons, out=None)


def test_charts_side_by_side_share_their_scales(classifier, moons):
    """What is taller in a comparison is more: limits of charts and ends of color scales are common."""
    from matplotlib.figure import Figure

    from splinescope.reports.pictures import share_scales

    figures = [Figure(), Figure()]
    for figure, top in zip(figures, (1.0, 50.0), strict=True):
        chart, plane = figure.subplots(1, 2)
        chart.plot([0, top], [0, top])
        plane.plot([0, top], [0, top])
        plane.set_aspect("equal")
    share_scales(figures)
    (one, small), (other, large) = (figure.axes for figure in figures)
    assert one.get_ylim() == other.get_ylim()
    assert one.get_ylim()[1] >= 50
    assert small.get_ylim() != large.get_ylim()  # a plane keeps its own coordinates
    wide = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 2)).eval()
    found = ss.compare_models({"a": classifier, "b": wide}, *moons, out=None, include=["tiles"], progress=False)
    seen = []
    for name in ("a", "b"):
        block = found[name]["tiles"]
        figure = Figure()
        block.draw_on(figure, (1e-3, 1e3))
        seen.append([ax.get_ylim() for ax in figure.axes if ax.get_label() == "<colorbar>"])
    assert seen[0] == seen[1] == [pytest.approx((1e-3, 1e3))]

"""What is true of the numbers of experiments on "Batch Normalization Decomposed" at any size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from laws._words import Laws, Numbers, near, shares


def thm3(n: Numbers) -> None:
    for row in n["polygons"]:  # the exact classes of a regular polygon
        assert row["classes"] == 2 * row["n"]
        assert row["gamma"] == pytest.approx(1 / (2 * row["n"]), rel=1e-9)
        assert row["n"] <= row["mean"] <= row["bound"]
    assert not any(n["collinear_reached"].values())


def thm10(n: Numbers) -> None:
    assert all(t <= b for k in n["depths"] for t, b in zip(n["depths"][k], n["bounds"][k], strict=True))
    assert all(late > soon for soon, late in zip(n["ordinary_depth"], n["close_pair_depth"], strict=True))


def thm11(n: Numbers) -> None:
    for row in n["rows"]:
        assert row["first_last_product"] == 0
        assert row["ratio"] <= math.sqrt(2 / ((row["n"] - 1) ** 2 + 1)) * (1 + 1e-9)
        assert row["deviation"] <= row["sharp_deviation"] + 1e-9
    assert n["rates"] == pytest.approx([n["predicted_rate"]] * len(n["rates"]), abs=1e-3)


def thm13(n: Numbers) -> None:
    for row in n["rows"]:
        assert row["closed_error"] < 1e-12
        assert row["products"] == 0
        assert abs(row["odd_square"] - 1) < 5 * row["odd_square_error"]


def thm14(n: Numbers) -> None:
    far = [row for row in n["rows"] if row["factor"] > 1]
    assert all(row["ratio"] <= row["gain"] * (1 + 1e-9) < 1 for row in far)
    assert near([row["odd"] for row in n["rows"]], 1, 1e-9)
    assert all(sample["product"] == 0 for sample in n["sampled"])


def lemma2(n: Numbers) -> None:
    assert min(n["ratios"]) >= 1
    assert n["other_flips_corrected"] == 0 < n["other_flips_printed"]


def cor4(n: Numbers) -> None:
    assert (n["line_plain_reached"], n["line_recentered_reached"]) == (1.0, 0.0)


def decomposed_fig2(n: Numbers) -> None:
    """Without biases the scale of weights is a factor of the output: it changes no rank."""
    ranks(n)
    for he, default in zip(n["results"]["He, no bias"], n["results"]["default, no bias"], strict=True):
        assert he["ranks"] == default["ranks"]
        np.testing.assert_allclose(he["effective"], default["effective"], rtol=1e-6)


def decomposed_fig6(n: Numbers) -> None:
    """By Cauchy and Schwarz 99% of a unit's energy are on no fewer inputs than .99^2 of its participation ratio."""
    activity(n)
    for row in n["rows"]:
        assert shares([row["negligible"], row["zero"]])
        assert row["negligible"] <= 1 - 0.99**2 * row["participation"] + 1e-9


def decomposed_fig5(n: Numbers) -> None:
    angles = [(r["angle"], r["predicted"]) for r in n["rows"] if r["kind"] == "RC + RS"]
    assert all(abs(angle - predicted) < 3 for angle, predicted in angles)


def decomposed_init(n: Numbers) -> None:
    assert all(run["identity_error"] < 1e-9 and run["rank"] == n["n"] for run in n["runs"])


def rescaling(n: Numbers) -> None:
    with_, without = (np.array(n["gaps"][kind]) for kind in ("rescaling", "linear"))
    assert (with_[:, -1] < 0.5 * with_[:, 0]).all()
    assert (without[:, -1] > 0.8 * without[:, 0]).all()


def ranks(n: Numbers) -> None:
    """A batch of a layer has no more directions than the layer has units, and one at least."""
    for rows in n.get("results", n.get("rows")).values():
        for row in rows:
            for values in (row.get("ranks", row.get("rank")), row["effective"]):
                assert np.min(values) >= 1 - 1e-9
                assert np.max(values) <= n["width"] * (1 + 1e-9)
            assert shares(row["accuracy"])


def odd_point(n: Numbers) -> None:
    """The odd point is further from the median of the others than from the longest, and angles are angles."""
    for run in n["runs"]:
        assert 0 <= run["index"] < n["n"]
        assert run["norm_ratio"] >= run["isolation"] > 0
        assert 0 <= run["cluster_angle"] <= 180
        assert 0 <= run["angle"] <= 180
    assert shares([n["odd_is_longest"], n["odd_is_planted"]])


def activity(n: Numbers) -> None:
    """A unit is active where it is not 0; its energy is on one input at least and on all at most."""
    for row in n["rows"]:
        assert shares([row["low"], row["high"], row["often"], row["zero"]])
        assert row["low"] <= row["high"]
        assert 1 / n["n"] - 1e-12 <= row["participation"] <= 1
    for kind, active in n["active"].items():
        zero = next(row["zero"] for row in n["rows"] if row["kind"] == kind)
        assert np.mean(active) == pytest.approx(1 - zero, abs=1e-12)


def bisection(n: Numbers) -> None:
    """At depth t there are 2^t intervals, one after the other, from the least value to the largest."""
    for depth, intervals in enumerate(n["intervals"]):
        ends = np.array(intervals)
        assert len(ends) == 2**depth
        assert ends[0, 0] == min(n["values"])
        assert ends[-1, 1] == max(n["values"])
        assert (ends[1:, 0] == ends[:-1, 1]).all()
        assert (ends[:, 0] <= ends[:, 1]).all()


LAWS: Laws = {
    "decomposed-cor4": cor4,
    "decomposed-fig1": rescaling,
    "decomposed-fig2": decomposed_fig2,
    "decomposed-fig5": decomposed_fig5,
    "decomposed-fig6": decomposed_fig6,
    "decomposed-init": decomposed_init,
    "decomposed-lemma2": lemma2,
    "decomposed-thm3": thm3,
    "decomposed-thm10": thm10,
    "decomposed-thm11": thm11,
    "decomposed-thm13": thm13,
    "decomposed-thm14": thm14,
    "decomposed-sec2": lambda n: None if max(n["difference"]) < 1e-12 else pytest.fail("recentering once differs"),
    "decomposed-fig2-fashion": ranks,
    "decomposed-fig3": odd_point,
    "decomposed-tree": bisection,
}

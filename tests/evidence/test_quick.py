"""Every experiment at quick size: it runs, judges nothing, draws, and its numbers keep what is true at any size.

Verdicts are the full size's (docs/evidence.md); what stands here are laws: exact identities, bounds, shares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from splinescope.evidence import Verdict, find, ids
from splinescope.evidence._pieces import LONG, _read, keeping
from splinescope.evidence._reproduce import _plain
from tests.answers import FIGURES

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("sklearn", reason="the data extra is not installed")

Numbers = dict[str, Any]


def near(value: Any, target: float, tolerance: float) -> bool:
    return bool(np.abs(np.asarray(value, float) - target).max() <= tolerance)


def shares(value: Any) -> bool:
    array = np.asarray(value, float)
    return bool(((array >= 0) & (array <= 1)).all())


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
    assert (n["line_plain_reached"], n["line_recentred_reached"]) == (1.0, 0.0)


def mean_width(n: Numbers) -> None:
    """A ReLU adds rank, and takes at most the square root of two of the largest stretch."""
    for row in n["rows"]:
        assert row["linear rank"] == 2 < row["rank"] <= n["points"]
        assert math.sqrt(0.5) - 1e-6 <= row["singular value"] <= 1 + 1e-12


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


def prop1(n: Numbers) -> None:
    assert max(n["asymmetry"], n["projector_error"], n["closed_form_error"], *n["isometry_error"]) < 1e-8
    assert n["least_eigenvalue"] > 0


def meanfield_norm(n: Numbers) -> None:
    assert n["pythagoras_error"] < 1e-12
    assert n["drifts"][-1] < n["drifts"][0]
    assert all(np.diff(growth).min() >= -1e-15 for growth in n["mean_growth"])


def meanfield_thm2(n: Numbers) -> None:
    assert max(n["field_errors"]) < 1e-12
    assert max(n["gaps"]["manifold"]) < 1e-5 < n["gaps"]["unit length"][-1]


def meanfield_thm4(n: Numbers) -> None:
    energy = n["energy"]
    assert energy["dL/dt"] == pytest.approx(energy["riemannian"], rel=1e-9)
    assert np.asarray(n["end"]).min() > 0
    assert np.asarray(n["start"])[:, 0].mean() > np.asarray(n["start"])[:, -1].mean()


def meanfield_thm5(n: Numbers) -> None:
    for excess in n["excess"].values():
        rows = np.atleast_2d(excess)
        assert rows.min() > -1e-9  # L* is the optimum
        assert (np.diff(rows, axis=1) < 1e-9).all()  # a gradient flow


def meanfield_fig2(n: Numbers) -> None:
    assert n["law_error"] < 1e-12
    assert near(n["plain"]["relu"], 1.0, 1e-12)


def meanfield_fig3(n: Numbers) -> None:
    before, after, push = (np.array(n[k]) for k in ("before", "after", "push"))
    predicted = np.sqrt(before[:, None] ** 2 + (push / before[:, None]) ** 2)
    np.testing.assert_allclose(after, predicted, rtol=1e-9)


def fig10(n: Numbers) -> None:
    assert n["unevenness"] < 1e-8
    factors, density = (np.array(values) for values in n["points"])  # by nearest neighbours, against the law
    assert 0.5 < np.median(density * n["area"] * factors) < 2


def fig8(n: Numbers) -> None:
    assert all(np.asarray(rows).min() > 0 for place in n["ratios"].values() for rows in place.values())


def jitter(n: Numbers) -> None:
    """The law of the first layer is exact in expectation: some draws and units are within a fifth of it."""
    assert near(n["ratios"], 1.0, 0.2)
    assert shares(n["flips"])


def grokking(n: Numbers) -> None:
    for curve in [*n["without"], *n["with"]]:
        assert curve["steps"][0] == 0
        assert min(curve["lc_train"]) >= 0
        assert shares(curve["train_accuracy"])
    assert set(n["statistics"]) == {"data", "running"}


def margins(n: Numbers) -> None:
    rows = n["rows"]
    assert all(r["smallest"] <= r["mean"] and shares(r["accuracy"]) for kind in rows.values() for r in kind)


def eq5(n: Numbers) -> None:
    for row in n["rows"]:
        assert max(row["error"], row["tie"]) < 1e-9
        assert (row["split patterns"], row["repeated patterns"], row["bends off folds"]) == (0, 0, 0)
        assert row["segments"] > 0


def folding(n: Numbers) -> None:
    assert len(n["differences"]) > 5
    assert max(n["differences"]) < 1e-6
    angles = np.array(n["by sigma"])
    assert (np.diff(angles, axis=1) > 0).all()
    assert (angles < 180).all()


def tile_counts(n: Numbers) -> None:
    assert all(pieces == 2 ** int(depth) for depth, pieces in n["teeth"].items())
    assert max(n["line"]) < n["limit"]


def lc_proxy(n: Numbers) -> None:
    folds, tiles = np.array(n["folds"]), np.array(n["tiles"])
    assert (tiles >= folds + 1).all()  # every fold that meets a convex set cuts it
    assert n["agree"][0] == 1.0


def gathering(n: Numbers) -> None:
    assert all(shares(rows) for rows in n["shares"].values())
    assert np.array(n["shares"]["relu(x1)"])[:, 0].tolist() == np.array(n["shares"]["sin(x1)"])[:, 0].tolist()


def rescaling(n: Numbers) -> None:
    with_, without = (np.array(n["gaps"][kind]) for kind in ("rescaling", "linear"))
    assert (with_[:, -1] < 0.5 * with_[:, 0]).all()
    assert (without[:, -1] > 0.8 * without[:, 0]).all()


def placement(n: Numbers) -> None:
    before, after, none = (np.array(n["shares"][place]) for place in ("before", "after", "none"))
    assert (before == 1).all()
    assert (after[:, 0] == none[:, 0]).all()  # the first layer has nothing before it


def language_models(n: dict) -> None:
    """With its factors held, a transformer is one affine map: exactly, in float64."""
    assert max(row["gap"] for row in n["rows"]) < 1e-12
    assert {row["activation"] for row in n["rows"]} == {"ReLU", "GELU"}


def steering(n: Numbers) -> None:
    """The last beta is the network itself; what survives an attack is right."""
    for row in n["rows"]:
        assert row["betas"][-1] == 1
        assert shares(row["accuracy"])
        assert (np.array(row["robust"]) <= np.array(row["accuracy"])).all()
        assert min(row["curvature"]) > 0


def instance_norm(n: Numbers) -> None:
    """Without biases, and with norms that are odd, a first layer has the same folds at x and at -x."""
    for kind in ("zero bias", "instance", "group", "layer"):
        assert near([row[0] for row in n["ratios"][kind]], 1.0, 1e-12)
    assert n["second_difference"]["zero bias"] < 1e-9 < 1e-3 < n["second_difference"]["instance"]


def optimizer(n: Numbers) -> None:
    """An exact minimum of a line, or of a ball around where one is, is nowhere above the place it starts from."""
    for of_task in n["curves"]["step"].values():
        for name in ("line", "ball"):
            assert all(np.diff(curve["loss"]).max() <= 0 for curve in of_task[name])
        assert all(np.min(curve["loss"]) >= 0 for curves in of_task.values() for curve in curves)


def placed_norms(n: Numbers) -> None:
    """The same starts and batches for every criterion, and folds somewhere."""
    assert {len(v["data"]) for v in n["places"].values()} == {2}
    assert all(np.min(v["data"]) > 0 for v in n["places"].values())
    for runs in n["runs"].values():
        assert all(shares([run["accuracy"] for run in of_kind]) for of_kind in runs.values())
        assert runs["median"] != runs["mean"]
    for found in n["folds"].values():  # of three layers of 4 units
        assert all(set(one) == {"data", "held out", "boundary", "elsewhere"} for one in found)
        assert all(0 < count <= 12 for one in found for count in one.values())


def merge_away(n: Numbers) -> None:
    """Until batch norm is merged away both arms with it are one run; folding then leaves the function as it was."""
    for kept, folded in zip(n["arms"]["batch norm"], n["arms"]["merged away"], strict=True):
        early = [i for i, step in enumerate(kept["steps"]) if step <= n["merge_at"]]
        for name in ("lc_train", "train_accuracy", "test_accuracy"):
            assert near(np.array(kept[name])[early[:-1]] - np.array(folded[name])[early[:-1]], 0.0, 1e-9)
        assert shares([folded["clean"], folded["robust"]])
        assert folded["robust"] <= folded["attacked clean"]


def self_similarity(n: Numbers) -> None:
    """A first layer of 8 (or 6) units cuts the one tile there is by no more than these, and tiles only become more."""
    for kind, rows in n["rows"].items():
        for row in rows:
            assert row["cuts"][0] <= (6 if "3-D" in kind else 8)
            assert (np.diff(row["tiles"]) >= 0).all()
            assert shares([*row["own to unrelated"], *row["two unrelated"], *row["one cut more"], *row["compared"]])
            assert shares(list(row["shapes"].values()))
            told = [v for name in ("sides", "jumps") for of in ("depths", "networks") for v in row[f"{name}, {of}"]]
            assert shares(np.nan_to_num(told))  # nan where a quick network has no inner tile


def manifold_law(n: Numbers) -> None:
    """p values are shares, intervals hold the estimate, and toys lie as near the surface as their noise lets them."""
    for row in [*n["toys"], *n["digits"]]:
        assert shares([row["model"], row["uniform"]])
        assert row["low"] <= row["rho"] <= row["high"]
    assert max(row["distance"] for row in n["toys"]) < 0.06  # three times the noise


def fidelity(n: Numbers) -> None:
    """Larger batches change fewer signs, before training and after."""
    for runs in n["laws"].values():
        mean = np.array(runs).mean(0)
        assert shares(mean)
        assert (mean[0] > mean[-1]).all()
    assert all(shares(values) for values in n["accuracy"].values())


def fidelity_laws(n: Numbers) -> None:
    """Tiles of more layers change with those of fewer, and boundaries move."""
    for tables in n["tiles"].values():
        assert shares(np.array(tables))
        assert (np.diff(tables, axis=2) >= 0).all()
    for runs in n["moves"].values():
        assert all(np.min(run["mean"]) > 0 for run in runs)


def fidelity_tells(n: Numbers) -> None:
    """Networks of a seed are trained with every batch size; a larger one changes fewer signs in each of them."""
    for nets in n["seeds"]:
        assert [net["B"] for net in nets] == [8, 8, 32, 32]
        for net in nets:
            assert shares([net["accuracy"], *net["signs"], *net["tiles"], *net["classes"]])
            assert net["signs"][0] > net["signs"][-1]
            assert min(net["tiles"]) >= min(net["classes"])


def deep_initialization(n: Numbers) -> None:
    """Placed by all the data, a convolutional network is the one with batch norm, to batch norm's eps."""
    for depth in n["depths"]:
        own, normed = (n["cells"][f"convolutional|{depth}|{start}"] for start in ("placed", "batch norm"))
        np.testing.assert_allclose(own["spread"], normed["spread"], rtol=1e-2)
        assert all(1 <= value <= 12 for value in own["spread"])
    for cell in n["cells"].values():
        assert cell["inside"] == (cell["tried"][0] < cell["rate"] < cell["tried"][-1])


def test_a_rate_is_chosen_between_worse_ones_a_factor_of_two_apart() -> None:
    from splinescope.evidence.essay_initialization_deep import RATES, chosen_rate

    for best in range(1, 15):
        tried = chosen_rate(RATES, lambda rate, best=best: abs(math.log2(rate) + best))
        rates = sorted(tried)
        found = min(tried, key=lambda rate: tried[rate])
        assert found == 2.0**-best
        assert {found / 2, found * 2} <= set(rates)


def depth_curvature(n: Numbers) -> None:
    """Shares are shares, maps to ten outputs have ranks up to ten, six points and ten outputs spectra of ranks up to
    sixty, and no layer is more curved than all together."""
    for kind, states in n["networks"].items():
        for state, rows in states.items():
            table = np.array(rows)
            assert table.shape == (2, 4, 4)
            assert ((table[:, :, 3] >= 1) & (table[:, :, 3] <= 60)).all()
            assert shares(table[:, :, 0])
            assert ((table[:, :, 1] >= 0) & (table[:, :, 1] <= 10)).all()
            for layers in n["layers"][kind][state]:
                assert max(layers["curvature"]) <= layers["whole"][0] + 1e-9


def migration(n: Numbers) -> None:
    """Records run from 0 to the end; distances are not negative; what is 0 speed at first is not known."""
    for curves in n["runs"].values():
        for c in curves:
            assert (c["steps"][0], c["steps"][-1]) == (0, 60)
            assert len(c["to_data"]) == len(c["lc"]) == len(c["steps"])
            assert np.nanmin(np.array(c["to_data"], float)) >= 0
            assert np.isnan(c["speed"][0]).all()
            assert np.isnan(c["speed"][-1]).all()
            assert np.nanmin(np.array(c["gradient"], float)) >= 0
            assert max(abs(c[f"leaving by {name}"]) for name in ("pull", "gradient", "to_boundary")) <= 1
            assert c["lc"][-1] == pytest.approx(np.median(c["late"]["lc"]))
    assert n["runs"]["weights x2"][0]["weight norm"][0] == pytest.approx(2 * n["runs"]["squared"][0]["weight norm"][0])


def eccentricity(n: Numbers) -> None:
    """Zero and non-zero eigenvalues are far apart: what is taken for zero does not set the eccentricity."""
    assert n["gap"] < 1e-3
    assert np.array(n["pairs"]).min() >= 1


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


def batch_size(n: Numbers) -> None:
    """Every arm is paired with the full batch on the same seeds; accuracies differ by shares."""
    assert len({len(values) for of in n["gains"].values() for values in of.values()}) == 1
    assert all(np.abs(values).max() <= 1 for values in n["gains"]["accuracy"].values())
    assert len({tuple(of) for of in n["gains"].values()}) == 1


def initialization(n: Numbers) -> None:
    """Speed is the mean of the loss over the run, and no loss is negative."""
    for starts in n["sets"].values():
        for found in starts.values():
            np.testing.assert_allclose(found["speed"], np.mean(found["curves"], axis=1), rtol=1e-9)
            assert np.min(found["curves"]) >= 0
            assert shares(found["accuracy"])


def normalizations(n: Numbers) -> None:
    """To scale a row moves no fold: RMS norm without biases and weight norm leave all; batch norm's split the data."""
    for ratios in n["ratios"].values():
        np.testing.assert_allclose(ratios["RMS"], ratios["zero bias"], rtol=1e-9)
        np.testing.assert_allclose(ratios["weight"], ratios["none"], rtol=1e-9)
    assert near(n["splits"]["batch"], 1.0, 0.0)
    assert all(shares(split) for split in n["splits"].values())


def meanfield_fig1(n: Numbers) -> None:
    """Speeds and losses are not negative; the angles go once around."""
    assert min(*n["batch_norm"], *n["plain"]) >= 0
    np.testing.assert_allclose(np.diff(n["angles"]), 2 * np.pi / len(n["angles"]), rtol=1e-9)
    assert np.min(n["loss_at_500"]) >= 0
    assert all(np.min(values) > 0 for values in n["ratios"].values())


def meanfield_thm3(n: Numbers) -> None:
    """The equation holds weakly, to the error of the integrator; its density keeps its mass and its sign."""
    assert max(n["residuals"].values()) < 1e-6
    assert n["mass_error"] < 1e-12
    assert np.min(n["density"]) >= 0


def bn_tls(n: Numbers) -> None:
    """Of all offsets none is better than the mean, and no direction better than the smallest principal one."""
    curves = np.array(n["curves"])
    assert np.min(curves) >= 1 - 1e-12
    assert (np.array(n["shifts"])[curves.argmin(0)] == 0).all()
    assert min(n["optima"]) >= n["least"] * (1 - 1e-9)


def eq10(n: Numbers) -> None:
    np.testing.assert_allclose(n["measured"], n["predicted"], rtol=1e-8)
    assert len(n["measured"]) + n["flat"] <= n["tiles"]


def class_shares(n: Numbers) -> None:
    """Classes of samples make up all of them, however they are weighted."""
    for of_model in n.values():
        for kind, rows in of_model.items():
            if kind == "effective_size":
                assert np.min(rows) >= 1
            else:
                assert shares(rows)
                assert near(np.sum(rows, axis=1), 1.0, 1e-9)


def polarity(n: Numbers) -> None:
    """Weights are equal at rho = 0 alone: there the pool is worth most, all of it."""
    sizes, at = np.array(n["effective_size"]), n["rhos"].index(0.0)
    assert (sizes.argmax(1) == at).all()
    assert near(sizes[:, at], round(sizes[0, at]), 1e-6)
    assert shares(n["near"])


def surfaces(n: Numbers) -> None:
    """A cross-entropy is not negative, and shares are shares; twins come in pairs."""
    assert sum(r["skip"] for r in n["records"]) == sum(not r["skip"] for r in n["records"])
    for r in n["records"]:
        assert np.min(r["losses"]) >= 0
        assert shares([r["nonconvex"], r["accuracy"]])


def fig7(n: Numbers) -> None:
    """With batch norm every fold of the first layer goes through the mean of the data (ends have four decimals)."""
    pieces, mean = np.array(n["pictures"]["batch"][0]), np.mean(n["data"], axis=0)
    along, to = pieces[:, 1] - pieces[:, 0], mean - pieces[:, 0]
    assert np.abs(along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0]).max() < 1e-3
    assert all(np.min(ratios) >= 0 for ratios in n["ratios"].values())


def fig9(n: Numbers) -> None:
    """Three pictures of each network, in the order of training; a plane has tiles, and its boundary a length."""
    for rows in n["rows"]:
        assert [row["step"] for row in rows] == sorted(row["step"] for row in rows)
        assert len(rows) == len(n["pictures"]) == 3
        for row in rows:
            assert row["tiles"] >= 1
            assert min(row["lc_train"], row["boundary_length"], row["near_data"], row["slope_at_data"]) >= 0


def lc_phases(n: Numbers) -> None:
    """What survives the union of attacks survives each; least and largest are; robustness starts at interpolation."""
    for run in n["attacks"]:
        for found in run:
            assert found["accuracy"] <= min(found["gradient"], found["search"], found["transfer"]) + 1e-12
    for phase in [*n["phases"], *n["cross_entropy"]]:
        assert 0 <= phase["low"] <= phase["start"]
        assert phase["low"] <= phase["high"] >= phase["end"]


def magnet(n: Numbers) -> None:
    """What is covered twice is a share of the image, a p value one of draws; every weight meets every surface."""
    assert n["chi_square"].keys() == n["p"].keys()
    for kind, p in n["p"].items():
        assert len(p) == len(n["chi_square"][kind]) == len(n["covered_twice"])
        assert shares(p)
        assert np.min(n["chi_square"][kind]) > 0
    assert shares(n["covered_twice"])


def piecewise_quadratic(n: Numbers) -> None:
    """One layer's pieces are quadratic and meet; all layers' are polynomials of degree 2 L: to rounding."""
    records = n["records"]
    assert max(*records["mismatch"], *records["third"], *records["polynomial"]) < 1e-9
    assert (np.diff(n["line"]["breaks"]) > 0).all()
    assert len(n["line"]["coefficients"]) == len(n["line"]["breaks"]) - 1


def conditioning(n: Numbers) -> None:
    """No layer exceeds its bound where there is one; without one, 1/e is reached."""
    for found in n["skip"].values():
        for condition, norm, bound in zip(found["condition"], found["norm"], found["bound"], strict=True):
            assert (bound is None) == (norm >= 1)
            assert bound is None or 1 <= condition <= bound * (1 + 1e-9)
    for e, condition in n["adverse"].items():
        assert condition == pytest.approx(1 / float(e), rel=1e-6)


LAWS: dict[str, Callable[[Numbers], None]] = {
    "decomposed-cor4": cor4,
    "decomposed-fig1": rescaling,
    "decomposed-fig2": decomposed_fig2,
    "decomposed-fig5": decomposed_fig5,
    "decomposed-fig6": decomposed_fig6,
    "decomposed-init": decomposed_init,
    "decomposed-lemma2": lemma2,
    "decomposed-mean-width": mean_width,
    "decomposed-thm3": thm3,
    "decomposed-thm10": thm10,
    "decomposed-thm11": thm11,
    "decomposed-thm13": thm13,
    "decomposed-thm14": thm14,
    "decomposed-sec2": lambda n: None if max(n["difference"]) < 1e-12 else pytest.fail("recentring once is not enough"),
    "essay-depth-curvature": depth_curvature,
    "essay-initialization-deep": deep_initialization,
    "essay-instance-norm": instance_norm,
    "essay-fidelity": fidelity,
    "essay-fidelity-laws": fidelity_laws,
    "essay-fidelity-tells": fidelity_tells,
    "essay-jitter": jitter,
    "essay-margin": margins,
    "essay-placement": placement,
    "meanfield-fig2": meanfield_fig2,
    "meanfield-fig3": meanfield_fig3,
    "meanfield-gathering": gathering,
    "meanfield-norm": meanfield_norm,
    "meanfield-prop1": prop1,
    "meanfield-thm2": meanfield_thm2,
    "meanfield-thm4": meanfield_thm4,
    "meanfield-thm5": meanfield_thm5,
    "survey-bn-grokking": grokking,
    "survey-eq5": eq5,
    "survey-folding": folding,
    "survey-hessian-eccentricity": eccentricity,
    "survey-language-models": language_models,
    "survey-lc-proxy": lc_proxy,
    "survey-steering": steering,
    "survey-optimizer": optimizer,
    "survey-placed-norms": placed_norms,
    "survey-merge-away": merge_away,
    "survey-migration": migration,
    "survey-self-similarity": self_similarity,
    "survey-manifold-law": manifold_law,
    "survey-tile-counts": tile_counts,
    "survey-fig8": fig8,
    "survey-fig10": fig10,
    "decomposed-fig2-fashion": ranks,
    "decomposed-fig3": odd_point,
    "decomposed-tree": bisection,
    "essay-batch-size": batch_size,
    "essay-initialization": initialization,
    "essay-normalizations": normalizations,
    "meanfield-fig1": meanfield_fig1,
    "meanfield-thm3": meanfield_thm3,
    "survey-bn-tls": bn_tls,
    "survey-eq10": eq10,
    "survey-fig6": surfaces,
    "survey-fig7": fig7,
    "survey-fig9": fig9,
    "survey-fig9-mnist": fig9,
    "survey-fig11-mini": class_shares,
    "survey-fig12": polarity,
    "survey-lc-phases": lc_phases,
    "survey-magnet": magnet,
    "survey-piecewise-quadratic": piecewise_quadratic,
    "survey-resnet-conditioning": conditioning,
}


def test_every_experiment_has_a_law_of_its_numbers() -> None:
    assert set(LAWS) == set(ids())


@pytest.mark.parametrize("experiment_id", ids())
def test_it_works_and_keeps_its_laws(experiment_id: str, tmp_path: Path) -> None:
    from matplotlib import pyplot

    experiment = find(experiment_id)
    shares_done: list[float] = []
    with keeping(tmp_path, experiment_id, "source", "quick", 0) as pieces:
        outcome = experiment.measure("quick", 0, lambda share, what: shares_done.append(share))
    written = list(pieces.place.glob("*"))
    assert (len(written) > 1) == (experiment_id in LONG)  # a long one can be interrupted inside
    assert all(_read(path) is not None for path in written)
    assert all(0 <= share <= 1 for share in shares_done)
    assert outcome.claims
    for claim in outcome.claims:
        assert claim.verdict == Verdict.UNJUDGED
        assert claim.text.strip()
        assert claim.measured.strip()
        assert claim.criterion.strip()
        assert all(check.reason.strip() for check in claim.checks)
    numbers = json.loads(json.dumps(outcome.numbers, default=_plain))
    LAWS[experiment_id](numbers)
    for draw in (experiment.draw, *(draw for name, draw in FIGURES.values() if name == experiment_id)):
        figure = draw(numbers)
        assert all(ax.get_xlabel() or ax.get_ylabel() or ax.get_title() for ax in figure.axes)
        pyplot.close(figure)

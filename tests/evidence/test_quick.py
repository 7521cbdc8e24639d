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
    assert n["rate"] == pytest.approx(n["predicted_rate"], abs=1e-3)


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
    for he, default in zip(n["results"]["He, no bias"], n["results"]["default, no bias"], strict=True):
        assert he["ranks"] == default["ranks"]
        np.testing.assert_allclose(he["effective"], default["effective"], rtol=1e-6)


def decomposed_fig6(n: Numbers) -> None:
    """By Cauchy and Schwarz 99% of a unit's energy are on no fewer inputs than .99^2 of its participation ratio."""
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
    """Descent by pieces never rises, and at equal steps is below plain gradient descent even here."""
    for of_task in n["curves"]["step"].values():
        for name in ("line", "ball"):
            assert all(np.diff(curve["loss"]).max() <= 0 for curve in of_task[name])
        ends = {name: [c["loss"][min(n["steps"], len(c["loss"]) - 1)] for c in of_task[name]] for name in of_task}
        assert all(ours < theirs for ours, theirs in zip(ends["line"], ends["SGD"], strict=True))


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
            assert shares([*row["distance"], *row["compared"], *row["unrelated distance"], *row["one cut more"]])
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
    """Shares are shares, maps to ten outputs have ranks up to ten, and no layer is more curved than all together."""
    for kind, states in n["networks"].items():
        for state, rows in states.items():
            table = np.array(rows)
            assert table.shape == (2, 4, 3)
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
            assert abs(c["leaving by pull"]) <= 1
    assert n["runs"]["weights x2"][0]["weight norm"][0] == pytest.approx(2 * n["runs"]["squared"][0]["weight norm"][0])


def eccentricity(n: Numbers) -> None:
    """Zero and non-zero eigenvalues are far apart: what is taken for zero does not set the eccentricity."""
    assert n["gap"] < 1e-3
    assert np.array(n["pairs"]).min() >= 1


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
}


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
    LAWS.get(experiment_id, lambda n: None)(numbers)
    for draw in (experiment.draw, *(draw for name, draw in FIGURES.values() if name == experiment_id)):
        figure = draw(numbers)
        assert all(ax.get_xlabel() or ax.get_ylabel() or ax.get_title() for ax in figure.axes)
        pyplot.close(figure)

"""What is true of the numbers of experiments on the survey at any size."""

from __future__ import annotations

import numpy as np
import pytest

from laws._words import Laws, Numbers, near, shares


def fig10(n: Numbers) -> None:
    assert n["unevenness"] < 1e-8
    factors, density = (np.array(values) for values in n["points"])  # by nearest neighbors, against the law
    assert 0.5 < np.median(density * n["area"] * factors) < 2


def fig8(n: Numbers) -> None:
    assert all(np.asarray(rows).min() > 0 for place in n["ratios"].values() for rows in place.values())


def grokking(n: Numbers) -> None:
    for curve in [*n["without"], *n["with"]]:
        assert curve["steps"][0] == 0
        assert min(curve["lc_train"]) >= 0
        assert shares(curve["train_accuracy"])
    assert set(n["statistics"]) == {"data", "running"}


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


def lc_full_space(n: Numbers) -> None:
    tiles, folds, complete = (np.array(n["tables"])[..., i] for i in range(3))
    assert complete.all()
    assert (tiles >= folds + 1).all()


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
    """Until batch norm is merged away all arms with it are one run, to the end if no plateau is found; not after."""
    arms = n["arms"]
    assert {c["merged_at"] for arm in ("plain", "batch norm") for c in arms[arm]} == {None}
    assert {c["merged_at"] for c in arms["merged away"]} == {n["merge_at"]}
    assert all(c["merged_at"] is None or 10 < c["merged_at"] <= c["steps"][-1] for c in arms["merged at a plateau"])
    for arm in ("merged away", "merged at a plateau"):
        for kept, folded in zip(arms["batch norm"], arms[arm], strict=True):
            at = np.inf if folded["merged_at"] is None else folded["merged_at"]
            early = np.array(kept["steps"]) < at
            for name in ("lc_train", "train_accuracy", "test_accuracy"):
                assert near((np.array(kept[name]) - np.array(folded[name]))[early], 0.0, 1e-9)
            assert (kept["lc_train"] == folded["lc_train"]) == (at == np.inf)
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
    """p values are shares, intervals hold the estimate, and toys lie as near the surface as their noise lets."""
    for row in [*n["toys"], *n["digits"]]:
        assert shares([row["model"], row["uniform"]])
        assert row["low"] <= row["rho"] <= row["high"]
    assert max(row["distance"] for row in n["toys"]) < 0.06  # three times the noise


def migration(n: Numbers) -> None:
    """Records run from 0 to the end; distances are not negative; what is 0 speed at first is not known.

    Where rows that the monitor sees are of two classes there is a boundary, and folds near it are counted.
    """
    for curves in n["runs"].values():
        for c in curves:
            assert (c["steps"][0], c["steps"][-1]) == (0, 60)
            assert len(c["to_data"]) == len(c["lc"]) == len(c["steps"])
            assert np.nanmin(np.array(c["to_data"], float)) >= 0
            assert np.isnan(c["speed"][0]).all()
            assert np.isnan(c["speed"][-1]).all()
            assert np.nanmin(np.array(c["gradient"], float)) >= 0
            assert max(abs(c[f"leaving by {name}"]) for name in ("pull", "gradient", "to_boundary")) <= 1
            for place in ("lc", "lc at boundary", "lc inside"):
                assert c[place][-1] == pytest.approx(np.median(c["late"][place]), nan_ok=True)
                assert len(c[place]) == len(c["steps"])
                assert np.isnan(c[place]).all() or np.nanmin(c[place]) >= 0
            assert np.isfinite(c["lc inside"]).all()
            seen = np.isfinite(np.array(c["to_boundary"], float)).any(1)
            assert np.isfinite(np.array(c["lc at boundary"], float)[seen]).all()
    assert n["runs"]["weights x2"][0]["weight norm"][0] == pytest.approx(2 * n["runs"]["squared"][0]["weight norm"][0])


def eccentricity(n: Numbers) -> None:
    """Zero and non-zero eigenvalues are far apart: what is taken for zero does not set the eccentricity."""
    assert n["gap"] < 1e-3
    assert np.array(n["pairs"]).min() >= 1


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
    """A picture of each moment, from the start to the end; a plane has tiles, and its boundary a length."""
    for rows in n["rows"]:
        assert rows[0]["step"] == 0 < rows[1]["step"] <= rows[-1]["step"]
        assert len(rows) == len(n["pictures"])
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


LAWS: Laws = {
    "survey-bn-grokking": grokking,
    "survey-eq5": eq5,
    "survey-folding": folding,
    "survey-hessian-eccentricity": eccentricity,
    "survey-language-models": language_models,
    "survey-lc-full-space": lc_full_space,
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

"""What is true of the numbers of experiments on the mean-field paper at any size."""

from __future__ import annotations

import numpy as np
import pytest

from laws._words import Laws, Numbers, near, shares


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


def gathering(n: Numbers) -> None:
    assert all(shares(rows) for rows in n["shares"].values())


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


LAWS: Laws = {
    "meanfield-fig2": meanfield_fig2,
    "meanfield-fig3": meanfield_fig3,
    "meanfield-gathering": gathering,
    "meanfield-norm": meanfield_norm,
    "meanfield-prop1": prop1,
    "meanfield-thm2": meanfield_thm2,
    "meanfield-thm4": meanfield_thm4,
    "meanfield-thm5": meanfield_thm5,
    "meanfield-fig1": meanfield_fig1,
    "meanfield-thm3": meanfield_thm3,
}

"""What is true of the numbers of experiments on the essay at any size."""

from __future__ import annotations

import numpy as np

from laws._words import Laws, Numbers, near, shares


def jitter(n: Numbers) -> None:
    """The law of the first layer is exact in expectation: some draws and units are within a fifth of it."""
    assert near(n["ratios"], 1.0, 0.2)
    assert shares(n["flips"])


def margins(n: Numbers) -> None:
    rows = n["rows"]
    assert all(r["smallest"] <= r["mean"] and shares(r["accuracy"]) for kind in rows.values() for r in kind)


def placement(n: Numbers) -> None:
    before, after, none = (np.array(n["shares"][place]) for place in ("before", "after", "none"))
    assert (before == 1).all()
    assert (after[:, 0] == none[:, 0]).all()  # the first layer has nothing before it


def instance_norm(n: Numbers) -> None:
    """Without biases, and with norms that are odd, a first layer has the same folds at x and at -x."""
    for kind in ("zero bias", "instance", "group", "layer"):
        assert near([row[0] for row in n["ratios"][kind]], 1.0, 1e-12)
    assert n["second_difference"]["zero bias"] < 1e-9 < 1e-3 < n["second_difference"]["instance"]


def fidelity(n: Numbers) -> None:
    """Larger batches change fewer signs, before training and after."""
    for runs in n["laws"].values():
        mean = np.array(runs).mean(0)
        assert shares(mean)
        assert (mean[0] > mean[-1]).all()
    assert all(shares(values) for values in n["accuracy"].values())


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


def depth_curvature(n: Numbers) -> None:
    """Shares are shares, maps to ten outputs have ranks up to ten, and no loss is negative."""
    for of_seed in n["seeds"]:
        for kind in of_seed.values():
            table = np.array([kind["start"], kind["trained"]])
            assert table.shape == (2, 4, 3)
            assert shares(table[..., 0])
            assert ((table[..., 1] >= 0) & (table[..., 1] <= 10)).all()
            assert min(kind["loss"]) >= 0


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


LAWS: Laws = {
    "essay-depth-curvature": depth_curvature,
    "essay-initialization-deep": deep_initialization,
    "essay-instance-norm": instance_norm,
    "essay-fidelity": fidelity,
    "essay-fidelity-tells": fidelity_tells,
    "essay-jitter": jitter,
    "essay-margin": margins,
    "essay-placement": placement,
    "essay-initialization": initialization,
    "essay-normalizations": normalizations,
}

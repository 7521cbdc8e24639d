"""Verdicts, ranges, differences and volumes against rational arithmetic, at margins of 1e-16 to 1e-9."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property, verify


def exact_minimum(weights: list[Fraction], biases: list[Fraction], scale: Fraction, constant: Fraction) -> Fraction:
    """min over [0, 1] of constant + scale * sum_k relu(w_k x + b_k), in rational arithmetic: it is at a breakpoint."""
    places = [Fraction(0), Fraction(1)]
    places += [x for w, b in zip(weights, biases, strict=True) if w and 0 < (x := -b / w) < 1]
    return min(
        constant + scale * sum(max(w * x + b, Fraction(0)) for w, b in zip(weights, biases, strict=True))
        for x in places
    )


@pytest.mark.parametrize("exponent", range(-16, -8))
def test_no_rigorous_verdict_is_wrong_at_planted_margins(exponent: int) -> None:
    decided = 0
    for seed in range(3):
        net, numbers = drawn(seed)
        least = exact_minimum(*numbers)
        for sign in (1, -1):
            end = float(least) - sign * 10.0**exponent  # unsafe where y <= end
            margin = least - Fraction(end)
            verdict = verify(net, Property.never([[1.0]], [end]), ([0.0], [1.0]))
            if verdict.holds is None:
                assert not verdict.rigorous
                assert "tie" in verdict.reason
                assert abs(margin) <= Fraction(2 * verdict.rounding)
            else:
                decided += 1
                assert verdict.rigorous
                assert verdict.holds is (margin > 0)
    assert decided == 6 or exponent < -10  # an ulp of these outputs is 1e-16: this much must not be called a tie


def drawn(seed: int) -> tuple[nn.Sequential, tuple[list[Fraction], list[Fraction], Fraction, Fraction]]:
    """A network of one input with five hidden units, and its numbers as fractions."""
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=5), rng.normal(size=5) * 0.5
    net = nn.Sequential(nn.Linear(1, 5), nn.ReLU(), nn.Linear(5, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.from_numpy(w[:, None]))
        net[0].bias.copy_(torch.from_numpy(b))
        net[2].weight.fill_(0.3)
        net[2].bias.fill_(0.1)
    return net, ([Fraction(v) for v in w.tolist()], [Fraction(v) for v in b.tolist()], Fraction(0.3), Fraction(0.1))


@pytest.mark.parametrize("seed", range(4))
def test_ranges_differences_and_volumes_are_those_of_rational_arithmetic(seed: int) -> None:
    (f, one), (g, two) = drawn(seed), drawn(seed + 10)

    def at(numbers: tuple, x: Fraction) -> Fraction:
        weights, biases, scale, constant = numbers
        return constant + scale * sum(max(w * x + b, Fraction(0)) for w, b in zip(weights, biases, strict=True))

    places = sorted(
        {Fraction(0), Fraction(1)}
        | {x for n in (one, two) for w, b in zip(n[0], n[1], strict=True) if w and 0 < (x := -b / w) < 1}
    )
    found = ss.output_range(f, ([0.0], [1.0]))
    assert abs(Fraction(float(found.low[0])) - min(at(one, x) for x in places)) <= Fraction(float(found.rounding[0]))
    assert abs(Fraction(float(found.high[0])) - max(at(one, x) for x in places)) <= Fraction(float(found.rounding[0]))
    largest = max(abs(at(one, x) - at(two, x)) for x in places)
    apart = ss.guarantees.difference(f, g, ([0.0], [1.0]))
    assert apart.proven
    assert abs(Fraction(float(apart.largest[0])) - largest) <= Fraction(apart.tolerance)
    for exponent in range(-16, -8):  # eps planted that close to the difference, on both sides
        for sign in (1, -1):
            eps = float(largest) + sign * 10.0**exponent
            below = ss.guarantees.difference(f, g, ([0.0], [1.0]), eps).below
            assert below is None or below is (largest < Fraction(eps))
            assert below is not None or abs(largest - Fraction(eps)) <= 2 * Fraction(apart.tolerance)
    end = (min(at(one, x) for x in places) + max(at(one, x) for x in places)) / 2
    length = Fraction(0)  # of the inputs with an output of at most `end`
    for a, b in pairwise(places):
        low, high = at(one, a) - Fraction(float(end)), at(one, b) - Fraction(float(end))
        if low <= 0 and high <= 0:
            length += b - a
        elif low <= 0 or high <= 0:
            length += (b - a) * min(low, high) / (min(low, high) - max(low, high))
    unsafe = verify(f, Property.never([[1.0]], [float(end)]), ([0.0], [1.0]), complete=True).unsafe
    assert unsafe is not None
    assert unsafe.volume == pytest.approx(float(length), abs=1e-13)

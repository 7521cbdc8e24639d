"""Verdicts, ranges, differences and volumes against rational arithmetic, at margins of 1e-16 to 1e-9."""

from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull
from torch import nn

import splinescope as ss
from splinescope.guarantees import Property, verify
from splinescope.guarantees.rounding import least_share
from splinescope.tiling.measures.tile_shapes import shape_rounding
from tests.guarantees import exact_measure


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


KINDS = ("plain", "zero bias", "duplicate", "slivers", "equal outputs")


def degenerate(kind: str, d: int) -> nn.Sequential:
    torch.manual_seed(2)
    first = {1: 6, 2: 5, 3: 3}[d]
    layers = (nn.Linear(d, first), nn.ReLU(), nn.Linear(first, 3), nn.ReLU(), nn.Linear(3, 2))
    net = nn.Sequential(*layers).double()
    with torch.no_grad():
        if kind == "zero bias":
            for layer in net[::2]:
                layer.bias.zero_()
        elif kind == "duplicate":
            net[0].weight[1], net[0].bias[1] = net[0].weight[0], net[0].bias[0]
        elif kind == "slivers":
            net[0].weight[1], net[0].bias[1] = net[0].weight[0] * (1 + 1e-13), net[0].bias[0] + 1e-14
            net[2].weight[:, 1] = -net[2].weight[:, 0]  # both cancel, but on the sliver between them
            net[2].weight[:, 0] *= 9.0
            net[2].weight[:, 1] *= 9.0
        elif kind == "equal outputs":
            net[4].weight[1], net[4].bias[1] = net[4].weight[0], net[4].bias[0]
    return net


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_bounds_of_volumes_means_and_probabilities_cover_the_rational_truth(d: int, kind: str) -> None:
    """Also at a level that is attained at the origin, where the unsafe set may only touch."""
    net = degenerate(kind, d)
    box = (np.full(d, -1.0), np.full(d, 1.0))
    tiles = exact_measure.tiles_of(net, *(end.tolist() for end in box))
    at_zero = net(torch.zeros(1, d, dtype=torch.float64))[0].tolist()
    whole, (mean, covariance) = Fraction(2) ** d, exact_measure.moments(tiles)
    wins = exact_measure.volume_where(tiles, [lambda p, v: v[1] - v[0]]) / whole
    for end in (0.01, at_zero[0] - at_zero[1]):
        unsafe = exact_measure.volume_where(tiles, [lambda p, v, end=end: v[0] - v[1] - Fraction(end)])  # type: ignore[misc]
        asked = Property.never([1.0, -1.0], end)
        found = ss.guarantees.expectation(net, box, property=asked)
        for value, truth, bound in zip(found.mean, mean, found.rounding["mean"], strict=True):
            assert abs(Fraction(float(value)) - truth) <= Fraction(float(bound))
            assert bound < 1e-9
        for place in np.ndindex(2, 2):
            bound = Fraction(float(found.rounding["covariance"][place]))
            assert abs(Fraction(float(found.covariance[place])) - covariance[place[0]][place[1]]) <= bound < 1e-9
        assert abs(Fraction(float(found.classes[0])) - wins) <= Fraction(float(found.rounding["classes"][0]))
        assert found.unsafe is not None
        assert abs(Fraction(found.unsafe) - unsafe / whole) <= Fraction(found.rounding["unsafe"])
        verdict = ss.verify(net, asked, box, complete=True)
        assert verdict.unsafe is not None
        assert abs(Fraction(verdict.unsafe.volume) - unsafe) <= Fraction(verdict.unsafe.rounding)
        if end == 0.01:  # the other level is met on whole tiles, where all units are off: rounding decides
            assert verdict.unsafe.rounding < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mean", "std", "low", "high"), [(0.3, 0.6, -2.0, 1.5), (0.1, 1e-3, -1.0, 1.0),
                                                        (-9.0, 0.7, 2.0, 3.0), (0.25, 40.0, -1.0, 1.0)])  # fmt: skip
def test_bounds_under_a_gaussian_on_a_line_cover_the_truth_of_forty_digits(
    mean: float, std: float, low: float, high: float, kind: str
) -> None:
    net, asked, end = degenerate(kind, 1), Property.never([1.0, -1.0], 0.01), Fraction(0.01)
    found = ss.guarantees.expectation(net, ([low], [high]), (mean, std), property=asked, quantity=lambda t: t.areas)
    tiles = exact_measure.all_cut(exact_measure.tiles_of(net, [low], [high]), lambda p, v: v[0] - v[1])
    tiles = exact_measure.all_cut(tiles, lambda p, v: v[0] - v[1] - end)
    with mpmath.workdps(40):
        second, wins, unsafe = mpmath.zeros(3), mpmath.mpf(0), mpmath.mpf(0)  # moments of (1, y_0, y_1)
        for (a, at_a), (b, at_b) in (sorted(tile) for tile in tiles if tile[0][0] != tile[1][0]):
            u, v = ((mpmath.mpf(x.numerator) / x.denominator - mean) / mpmath.mpf(std) for (x,) in (a, b))
            p, q = (mpmath.npdf(x) for x in (u, v))
            mass = (mpmath.erfc(u / mpmath.sqrt(2)) - mpmath.erfc(v / mpmath.sqrt(2))) / 2
            rows = [[mpmath.mpf(1), mpmath.mpf(0)]]  # offset and slope of 1 and of each output, as functions of u
            for y in zip(at_a, at_b, strict=True):
                first, last = (mpmath.mpf(x.numerator) / x.denominator for x in y)
                rows.append([first - (last - first) / (v - u) * u, (last - first) / (v - u)])
            lines, raw = mpmath.matrix(rows), mpmath.matrix([[mass, p - q], [p - q, mass + u * p - v * q]])
            second += lines * raw * lines.T
            gap = at_a[0] - at_a[1] + at_b[0] - at_b[1]
            wins, unsafe = wins + mass * (gap >= 0), unsafe + mass * (gap <= 2 * end)
        wins, unsafe, second = wins / second[0, 0], unsafe / second[0, 0], second / second[0, 0]
        products = [second[c, k] - second[0, c] * second[0, k] for c in (1, 2) for k in (1, 2)]
        truth = [[second[0, 1], second[0, 2]], [wins, 1 - wins], [unsafe], products]
        for name, values in zip(("mean", "classes", "unsafe", "covariance"), truth, strict=True):
            bounds = np.ravel(found.rounding[name])
            for value, wanted, bound in zip(np.ravel(getattr(found, name)), values, bounds, strict=True):
                assert abs(mpmath.mpf(float(value)) - wanted) <= bound
            assert bounds.max() < 1e-5 or kind == "equal outputs"
    assert found.rounding["quantity"] < 1e-10


@pytest.mark.parametrize(("d", "kind", "far"), [(2, "plain", 0.0), (2, "slivers", 0.0), (2, "plain", 1e6),
                                               (3, "plain", 0.0), (3, "slivers", 0.0), (3, "plain", 1e6)])  # fmt: skip
def test_bounds_of_sizes_and_centroids_cover_the_rational_truth(d: int, kind: str, far: float) -> None:
    """Of tiles as they stand, slivers of 1e-13 among them: simplices over the origin and the facets of their hulls."""
    view = ss.Slice.axes(np.full(d, far), tuple(range(d)), far - 1.0, far + 1.0)
    tiling = ss.tessellate(degenerate(kind, d), view)
    sizes, centers = shape_rounding(tiling.tiles, tiling.vertices)
    found = tiling.centroids()
    for i in range(tiling.count):
        own = tiling.vertices[tiling.tiles.some(np.array([i])).corners]
        size, moment = Fraction(0), [Fraction(0)] * d
        round_, _, _ = np.linalg.svd(own - own.mean(0), full_matrices=False)  # an affine map, which keeps the facets
        for facet in ConvexHull(round_).simplices:
            corners = [tuple(map(Fraction, point)) for point in (*own[facet], own.mean(0))]
            part = exact_measure.volume(tuple((point, point) for point in corners))
            size += part
            moment = [m + part * sum(p[axis] for p in corners) / (d + 1) for axis, m in enumerate(moment)]
        assert abs(Fraction(float(tiling.areas[i])) - size) <= Fraction(float(sizes[i]))
        for axis in range(d):
            assert abs(Fraction(float(found[i, axis])) - moment[axis] / size) <= Fraction(float(centers[i, axis]))


def test_a_cone_has_the_most_volume_near_its_base() -> None:
    """By sampling: of simplices, boxes and balls, none has more of it in the lowest part of its height."""
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 5):
        ball = rng.normal(size=(100_000, d))
        ball *= rng.uniform(size=(100_000, 1)) ** (1 / d) / np.linalg.norm(ball, axis=1, keepdims=True)
        cone = rng.dirichlet(np.ones(d + 1), 100_000)[:, 0]
        for heights in (cone, rng.uniform(size=100_000), (ball[:, 0] + 1) / 2):
            for level in (0.1, 0.5, 0.9):
                bound = float(least_share(np.array(0.0), np.array(1.0), level, d))
                assert (heights <= level).mean() <= bound + 0.01
                assert heights is not cone or (heights <= level).mean() == pytest.approx(bound, abs=0.01)


def test_the_set_of_a_tie_is_no_exact_one() -> None:
    """At the network's least value the unsafe set is there or not by rounding alone."""
    net, _ = drawn(0)
    with torch.no_grad():
        least = float(net(torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]).min())
    tied = verify(net, Property.never([[1.0]], [least]), ([0.0], [1.0]), complete=True)
    clear = verify(net, Property.never([[1.0]], [least + 0.1]), ([0.0], [1.0]), complete=True)
    assert tied.holds is None
    assert tied.unsafe is not None
    assert clear.unsafe is not None
    assert (tied.unsafe.certainty, clear.unsafe.certainty) == ("bound", "exact")


def exact_slopes(net: nn.Sequential, d: int) -> list[list[list[Fraction]]]:
    tiles = exact_measure.tiles_of(net, [-1.0] * d, [1.0] * d)
    return [exact_measure.slope(tile) for tile in tiles if exact_measure.volume(tile)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_lipschitz_constant_of_rational_arithmetic_is_within_the_bound(d: int, kind: str) -> None:
    net = degenerate(kind, d)
    slopes = exact_slopes(net, d)
    for norm in (1, 2, np.inf):
        found = ss.guarantees.lipschitz(net, (-1.0, 1.0), norm)
        ends = [max(Fraction(found.constant) + sign * Fraction(found.rounding), Fraction(0)) for sign in (-1, 1)]
        if norm == 2:  # A'A has no eigenvalue above the square: in forty digits
            with mpmath.workdps(40):
                exact = [mpmath.matrix([[mpmath.mpf(v.numerator) / v.denominator for v in row] for row in a])
                         for a in slopes]  # fmt: skip
                truth = max(mpmath.sqrt(max(mpmath.eigsy(a.T * a, eigvals_only=True))) for a in exact)
                low, high = (mpmath.mpf(end.numerator) / end.denominator for end in ends)
                assert low <= truth <= high
        else:
            columns = [[*zip(*a, strict=True)] if norm == 1 else a for a in slopes]
            assert ends[0] <= max(sum(map(abs, row)) for a in columns for row in a) <= ends[1]
        assert found.rounding < 1e-11 or kind == "slivers"
        assert found.certainty == ("exact" if found.rounding < 1e-7 else "bound")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [1, 2])
def test_no_verdict_on_slopes_is_wrong_at_planted_margins(d: int, kind: str) -> None:
    """A unit that is on everywhere, relu(x_0 + 2), adds to the slope what makes the least one 1e-15 to 1e-9."""
    net = degenerate(kind, d)
    least = min(a[0][0] for a in exact_slopes(net, d))
    wider = nn.Sequential(*(nn.Linear(m.in_features + (i > 0), m.out_features + 1) if isinstance(m, nn.Linear) else m
                            for i, m in enumerate(net))).double()  # fmt: skip
    with torch.no_grad():
        for i in (0, 2, 4):
            wider[i].weight.zero_()
            wider[i].weight[:-1, : net[i].in_features], wider[i].bias[:-1] = net[i].weight, net[i].bias
            wider[i].weight[-1, -1 if i else 0], wider[i].bias[-1] = 1.0, 0.0 if i else 2.0
    decided = 0
    for exponent in range(-15, -8):
        for sign in (1, -1):
            extra = float(-least) + sign * 10.0**exponent
            with torch.no_grad():
                wider[4].weight[0, -1] = extra
            margin = least + Fraction(extra)
            verdict = verify(wider, Property.monotone(0), (-np.ones(d), np.ones(d)))
            assert verdict.rigorous is (verdict.holds is not None)
            assert verdict.holds is None or verdict.holds is (margin >= 0)
            assert verdict.holds is not None or "tie" in verdict.reason
            decided += verdict.holds is not None
            if verdict.holds is not None:
                assert abs(Fraction(verdict.margin) - margin) <= Fraction(verdict.rounding)
    assert decided >= 7  # of slivers, and at corners off the origin by rounding, the side of holding is left open


def test_the_bounds_of_a_layer_of_2100_units_cover_the_rational_truth() -> None:
    """On a line: slope and value are followed from breakpoint to breakpoint."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 2100), nn.ReLU(), nn.Linear(2100, 1)).double()
    w, b, v, (c,) = ([Fraction(x) for x in t.flatten().tolist()] for t in net.parameters())
    on = [k for k in range(2100) if b[k] - w[k] > 0 or (b[k] == w[k] and w[k] > 0)]
    x, slope, y = Fraction(-1), sum(v[k] * w[k] for k in on), c + sum(v[k] * (b[k] - w[k]) for k in on)
    steepest, area = abs(slope), Fraction(0)
    bends = sorted((-b[k] / w[k], abs(w[k]) * v[k]) for k in range(2100) if abs(b[k]) < abs(w[k]))
    for place, change in [*bends, (Fraction(1), Fraction(0))]:
        area += (place - x) * (y + (place - x) * slope / 2)
        y, x, slope = y + (place - x) * slope, place, slope + change
        steepest = max(steepest, abs(slope))
    found = ss.guarantees.lipschitz(net, (-1.0, 1.0))
    assert abs(Fraction(found.constant) - steepest) <= Fraction(found.rounding) < 1e-9
    mean = ss.guarantees.expectation(net, (-1.0, 1.0))
    assert abs(Fraction(float(mean.mean[0])) - area / 2) <= Fraction(float(mean.rounding["mean"][0])) < 1e-8

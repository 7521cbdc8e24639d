"""The expected Gram matrix under recentering and ReLU as a dynamical system: its states, their stability and basins."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from splinescope_evidence.framework.experiment import Check, Experiment, Outcome, Progress, Size, judged
from splinescope_evidence.shared.figures import log_ticks, subplots
from splinescope_research.random_layers.expected_gram import arc_cosine, recentered_gram, relu_gram

SIZES = (8, 10, 12, 16, 20, 32, 64, 100)


def run(size: Size = "quick", seed: int = 0, progress: Progress | None = None) -> Outcome:
    quick = size == "quick"
    compared = (4, 6) if quick else (4, 6, 10, 16, 24)
    error = max(_spectrum_error(n) for n in compared)
    rates = {n: _symmetric_rates(n) for n in (4, 6, 10, 16, 24, 100, 1000, 10_000)}
    slowest = max(first for first, _ in rates.values())
    growth = [_growth(n) for n in (5, 10, 32)]
    states = {}
    for i, n in enumerate(SIZES[1:3] if quick else SIZES):
        if progress is not None:
            progress(0.3 * i / len(SIZES), f"states of {n} points")
        odd = _settled(n, 50.0)
        states[n] = {"ratio": _ratio(odd), "angle": _angle(odd), "threshold": _threshold(n)}
    largest = max(states)
    none = max(_ratio(_settled(n, 50.0)) for n in (4, 6))
    shares, lengths = [], {}
    widths, networks, depth, n = ((32, 64), 2, 20, 16) if quick else ((64, 128, 256, 512), 20, 200, 16)
    rng = np.random.default_rng(seed)
    for width in widths:
        if progress is not None:
            progress(0.3 + 0.7 * widths.index(width) / len(widths), f"width {width}")
        curves = np.stack([_lengths(n, width, depth, rng) for _ in range(networks)])
        lengths[width] = curves.tolist()
        shares.append([float((curves[:, t] > 3).mean()) for t in (depth // 4 - 1, depth - 1)])
    limit = _ratio(_settled(n, 1.0))
    early, late = zip(*shares, strict=True)
    numbers = {"rates": rates, "states": states, "lengths": lengths, "limit": _ratio(_settled(n, 50.0)), "n": n}
    return Outcome(
        numbers,
        (
            judged(
                "Under recentering and ReLU, the expected Gram matrix has a state without an odd point that attracts: "
                "equal lengths, and angles of arccos J(-1/(n-1)). Perturbations shrink by at most (n-2)/(n-1) + "
                "k n/((1-j)(n-1)^2) a layer, with j = J(r), k = J'(r) at r = -1/(n-1).",
                f"closed form minus numerical spectrum at most {error:.1e} for n = {', '.join(map(str, compared))}; "
                "slowest factor "
                + ", ".join(f"{rates[m][0]:.5f} for n = {m}" for m in (4, 10, 100, 1000)),
                holds=[
                    Check("closed form minus numerical spectrum, largest", error, "<", 1e-5, "central differences"),
                    Check("slowest factor, n up to 10,000", slowest, "<", 1.0, "below 1 a perturbation shrinks"),
                ],
            ),
            judged(
                "The invariant representation of Definition 12 attracts, too. (It does not: differences inside its "
                "cluster grow by n^2/(n^2-2n+2). What attracts beside it, from n = 8 on, has a cluster of angle "
                "about 3 pi/n.)",
                "squared differences inside a cluster of 0.001 rad grow by "
                + ", ".join(f"{g:.4f} (predicted {p:.4f}) at n = {m}" for m, g, p in growth)
                + "; lasting state: "
                + ", ".join(f"n = {m}: angle {s['angle']:.2f} degrees, 3 pi/n {540 / m:.2f}, length {s['ratio']:.2f} "
                            f"from a first ratio of {s['threshold']:.3f} on" for m, s in states.items())
                + f"; for n = 4 and 6 lengths end within {none - 1:.0e} of equal",
                holds=[Check("growth inside the cluster, largest", max(g for _, g, _ in growth), "<", 1.0,
                             "below 1 the cluster contracts")],
                fails=[
                    Check("growth inside the cluster, least", min(g for _, g, _ in growth), ">", 1.0, "it opens"),
                    Check("growth minus prediction, largest", max(abs(g - p) for _, g, p in growth), "<", 1e-3,
                          "terms of the angle, 0.001 rad"),
                    Check(f"angle over 3 pi/n at n = {largest}, minus 1",
                          abs(states[largest]["angle"] * largest / 540 - 1), "<", 0.05, "next order in 1/n"),
                ],
            ),
            judged(
                "Finite width selects the odd point: from equal lengths and right angles the expected Gram matrix "
                "never makes one, networks do, and later the wider they are.",
                f"n = {n}; longest over second in expectation {limit:.6f}; share of {networks} networks with an odd "
                f"point (3 times the second) at depth {depth // 4} and {depth}: "
                + ", ".join(f"width {w} {a:.2f} and {b:.2f}" for w, a, b in zip(widths, early, late, strict=True)),
                holds=[
                    Check("expected ratio of the two longest, minus 1", abs(limit - 1), "<", 1e-6,
                        "a state of its own"),
                    Check("least share at the end", min(late), ">", 0.8, "they all leave in the end"),
                    Check("share early, narrowest minus widest", early[0] - early[-1], ">", 0.3, "wider is later"),
                ],
                fails=[Check("largest share at the end", max(late), "<", 0.2, "they stay")],
            ),
        ),
    )  # fmt: skip


def _step(gram: np.ndarray) -> np.ndarray:
    """One layer, at trace 1."""
    after = relu_gram(recentered_gram(gram))
    return np.asarray(after / np.trace(after))


def _symmetric_rates(n: int) -> tuple[float, float]:
    """The two factors other than 0 by which a layer multiplies perturbations of the symmetric state.

    The first belongs to perturbations by point, lengths and correlations together; the second to those by pair.
    """
    r = -1 / (n - 1)
    j, k = float(arc_cosine(r)), 1 - np.arccos(r) / np.pi
    return float((n - 2) / (n - 1) + k * n / ((1 - j) * (n - 1) ** 2)), float(k * n / ((1 - j) * (n - 1)))


def _spectrum_error(n: int) -> float:
    """The closed form against the spectrum of central differences, with multiplicities."""
    gram = np.eye(n)
    for _ in range(60):
        gram = _step(gram)
    upper, columns = np.triu_indices(n), []
    for i, k in zip(*upper, strict=True):
        change = np.zeros((n, n))
        change[i, k] = change[k, i] = 1e-6
        columns.append((_step(gram + change) - _step(gram - change))[upper] / 2e-6)
    found = np.sort(np.linalg.eigvals(np.array(columns)).real)
    first, second = _symmetric_rates(n)
    known = np.sort([*[first] * (n - 1), *[second] * (n * (n - 3) // 2), *[0.0] * (n + 1)])
    return float(np.abs(found - known).max())


def _growth(n: int, angle: float = 1e-3) -> tuple[int, float, float]:
    """By how much a layer multiplies squared differences in the invariant representation's cluster, and n^2/(...)."""
    h = np.zeros((n, n + 1))
    h[0, 0] = 1.0
    h[1:, 1] = np.cos(angle) / (n - 1)
    h[1:, 2:] = np.sin(angle) / (n - 1) * np.eye(n - 1)
    before = h @ h.T
    after = relu_gram(recentered_gram(before))
    gap = [(g[1, 1] + g[2, 2] - 2 * g[1, 2]) / g[0, 0] for g in (before, after)]
    return n, float(gap[1] / gap[0]), n * n / (n * n - 2 * n + 2)


def _reduced(state: np.ndarray, n: int) -> np.ndarray:
    """One layer for one point against n - 1 alike: squared length, product with others, theirs, and among them."""
    a, b, c, d = state
    one, other = a + (n - 1) * b, b + c + (n - 2) * d
    both = (one + (n - 1) * other) / n**2
    a, b, c, d = (
        a - 2 * one / n + both,
        b - (one + other) / n + both,
        c - 2 * other / n + both,
        d - 2 * other / n + both,
    )
    mixed = np.sqrt(a * c)
    after = np.array([a, mixed * arc_cosine(b / mixed), c, c * arc_cosine(d / c)])
    return np.asarray(after / (after[0] + (n - 1) * after[2]))


@lru_cache(maxsize=500)
def _settled(n: int, ratio: float) -> np.ndarray:
    """The state that orthogonal points end in, one of them `ratio` times as long as the others."""
    state = np.array([ratio**2, 0.0, 1.0, 0.0])
    for _ in range(4000):
        before, state = state, _reduced(state, n)
        if np.abs(before - state).max() < 1e-13 * state[0]:
            break
    return state


def _ratio(state: np.ndarray) -> float:
    return float(np.sqrt(state[0] / state[2]))


def _angle(state: np.ndarray) -> float:
    return float(np.degrees(np.arccos(state[3] / state[2])))


def _threshold(n: int) -> float:
    """The smallest first ratio of lengths from which an odd point stays, by bisection."""
    low, high = 1.0, 3.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if _ratio(_settled(n, middle)) > 1.5 else (middle, high)
    return high


def _lengths(n: int, width: int, depth: int, rng: np.random.Generator) -> np.ndarray:
    """`[depth]` longest over second longest point, layer by layer, from orthogonal points of equal length."""
    h = np.eye(n)
    found = []
    for _ in range(depth):
        h = h @ rng.standard_normal((h.shape[1], width)).astype(np.float32)
        h = np.maximum(h - h.mean(0), 0)
        h /= np.linalg.norm(h)
        second, longest = np.sort(np.linalg.norm(h, axis=1))[-2:]
        found.append(longest / second)
    return np.array(found)


def draw(numbers: dict[str, Any]) -> Any:
    figure, (left, right) = subplots(2)
    states = {int(n): state for n, state in numbers["states"].items()}
    sizes = sorted(states)
    ratios = [states[n]["threshold"] for n in sizes]
    left.fill_between(sizes, ratios, 1.5, color="#d55e00", alpha=0.15)
    left.fill_between(sizes, 1, ratios, color="#0072b2", alpha=0.15)
    left.plot(sizes, ratios, "o-", color="black", markersize=4)
    left.text(0.5, 0.6, "becomes the odd point", transform=left.transAxes)
    left.text(0.06, 0.06, "lengths become equal", transform=left.transAxes)
    left.set(xlabel="points in the batch", ylabel="first length over the others'", ylim=(1, 1.5))
    log_ticks(left, sizes)
    left.set_title("expected Gram matrix: two basins")
    for (width, curves), color in zip(
        numbers["lengths"].items(), ("#0072b2", "#009e73", "#e69f00", "#d55e00"), strict=False
    ):
        table = np.array(curves)
        layers = range(1, table.shape[1] + 1)
        right.plot(layers, np.median(table, 0), color=color, label=f"width {width}")
    right.axhline(numbers["limit"], color="0.4", linestyle="--", linewidth=1, label="lasting state")
    right.axhline(1, color="0.4", linewidth=1, label="infinite width")
    right.set(xlabel=f"layer (n = {numbers['n']})", ylabel="longest over second longest", ylim=(0, None))
    right.set_title("from equal lengths: width decides when")
    right.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 0.1))
    return figure


EXPERIMENT = Experiment(
    "A batch under recentering and ReLU: two states, and width decides",
    run,
    draw,
    place="an open question behind Figure 3 and Definition 12: which representations attract",
)

"""The hot loops of the searches: non-negative least squares, rays, and the facets of many small polytopes.

A polytope is `{t : heights + normals @ t >= 0}` with unit normals; `above` are the heights seen from its center.
`state` says of each halfspace 1: a facet, 0: redundant, -1: not decided; `points` has an inner point of each facet.
"""

from __future__ import annotations

import numpy as np

from splinescope.support.compile import jit

FIRST = 1e-9  # a ray proves a facet if the next hyperplane is farther by this factor
REDUNDANT = 1e-9  # a row nearer to the cone of the others is in it
ROUNDING = 2e-16  # of a height
SAME = 1e-9  # rows (normal and relative height) that differ by less are one hyperplane
_AHEAD = 1e-14  # a ray that nears a hyperplane more slowly is parallel to it
_ATTEMPTS = 8  # to meet one facet alone
_GAIN = 1e-15  # a row that would lower the residual by less is left out
_DEPENDENT = 1e-13  # of its length: a row that is nearer to the span of the others depends on them


@jit(fastmath={"reassoc", "contract"})  # sums in any order, so that they are vectorized
def _dot(a, b):
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@jit
def _project(vector, q, many, parts):
    """Take from a vector its parts along the first rows of q; twice, so that it is orthogonal to the last digit."""
    parts[:many] = 0.0
    for _ in range(2):
        for k in range(many):
            part = _dot(q[k], vector)
            parts[k] += part
            for j in range(len(vector)):
                vector[j] -= part * q[k, j]


@jit
def _remove(place, many, rows, q, r, image):
    """Take a row out of the factors `rows = r^T q` by rotations; the others move up."""
    for k in range(place, many - 1):
        rows[k] = rows[k + 1]
        for i in range(k + 2):
            r[i, k] = r[i, k + 1]
    for k in range(place, many - 1):
        size = np.sqrt(r[k, k] ** 2 + r[k + 1, k] ** 2)
        cosine, sine = r[k, k] / size, r[k + 1, k] / size
        for j in range(k, many - 1):
            a, b = r[k, j], r[k + 1, j]
            r[k, j], r[k + 1, j] = cosine * a + sine * b, cosine * b - sine * a
        for j in range(q.shape[1]):
            a, b = q[k, j], q[k + 1, j]
            q[k, j], q[k + 1, j] = cosine * a + sine * b, cosine * b - sine * a
        a, b = image[k], image[k + 1]
        image[k], image[k + 1] = cosine * a + sine * b, cosine * b - sine * a


@jit
def nonnegative(cone, target, enough):
    """Weights >= 0 of the rows of `cone` whose sum is nearest to `target`; what is left; whether it converged.

    Lawson and Hanson's active set, with an orthonormal basis of the active rows that grows and shrinks by one. It ends
    early once the rest is at most `enough`.
    """
    many, size = cone.shape
    most = min(many, size)
    weights, barred = np.zeros(many), np.zeros(many, np.bool_)
    active, q, r = np.empty(most, np.int64), np.empty((most, size)), np.zeros((most, most))
    image, solution, parts, rest = np.empty(most), np.empty(most), np.empty(most), target.copy()
    used = 0
    left = np.sqrt(_dot(rest, rest))
    for _ in range(10 * many + 100):
        best, gain = -1, _GAIN
        for i in range(many):
            if weights[i] == 0.0 and not barred[i]:
                slope = _dot(cone[i], rest)
                if slope > gain:
                    best, gain = i, slope
        if left <= enough or best < 0 or used == most:
            return weights, rest, True
        new, length = q[used], np.sqrt(_dot(cone[best], cone[best]))
        new[:] = cone[best]
        _project(new, q, used, parts)
        r[:used, used] = parts[:used]
        beyond = np.sqrt(_dot(new, new))
        barred[best] = True  # unless it proves useful
        if beyond <= _DEPENDENT * length:
            continue
        new /= beyond
        r[used, used] = beyond
        image[used] = _dot(new, target)
        if image[used] <= 0.0:
            continue
        active[used] = best
        used += 1
        while used > 0:
            for k in range(used - 1, -1, -1):
                value = image[k]
                for j in range(k + 1, used):
                    value -= r[k, j] * solution[j]
                solution[k] = value / r[k, k]
            way, out = 1.0, -1
            for k in range(used):
                if solution[k] <= 0.0:
                    weight = weights[active[k]]
                    step = weight / (weight - solution[k]) if weight > 0.0 else 0.0
                    if out < 0 or step < way:
                        way, out = step, k
            for k in range(used):
                weights[active[k]] += way * (solution[k] - weights[active[k]])
            if out < 0:
                break
            weights[active[out]] = 0.0
            _remove(out, used, active, q, r, image)
            used -= 1
        rest[:] = target
        _project(rest, q, used, parts)
        now = np.sqrt(_dot(rest, rest))
        if now < left:
            barred[:] = False
        left = now
    return weights, rest, False


@jit
def shoot(normals, above, center, directions, state, points):
    """Mark the facets that rays from the center along `[m, r]` meet alone; which was marked last (-1: none)."""
    marked = -1
    speeds = np.dot(directions, normals.T)
    for ray in range(len(directions)):
        first, least, next_least = -1, np.inf, np.inf
        for row in range(len(above)):
            if speeds[ray, row] < -_AHEAD:
                time = -above[row] / speeds[ray, row]
                if time < least:
                    first, least, next_least = row, time, least
                elif time < next_least:
                    next_least = time
        if first >= 0 and state[first] != 1 and next_least > (1 + FIRST) * least:
            state[first] = 1
            points[first] = center + least * directions[ray]
            marked = first
    return marked


@jit
def decide(normals, above, center, rows, mixed, span, unit, asked, state, points):
    """Decide on the halfspaces `asked` about by Clarkson's scheme; whether every problem converged.

    `rows` are `[n, s + 1]` of length 1: the normals in the `span` `[s, r]` that is looked at, and `above` over `unit`;
    those that are `mixed` may take part in combinations.
    """
    room = 0.5 * above.min()
    size = rows.shape[1]
    cone = np.zeros((1 + len(rows), size))
    cone[0, -1] = 1.0
    many = 1
    for row in range(len(rows)):
        if state[row] == 1 and mixed[row]:
            cone[many] = rows[row]
            many += 1
    for row in asked:
        while state[row] < 0:
            _, rest, converged = nonnegative(cone[:many], rows[row], REDUNDANT)
            if not converged:
                return False
            length = np.sqrt(_dot(rest, rest))
            found = -1
            for attempt in range(_ATTEMPTS):
                if length <= REDUNDANT or found >= 0:
                    break
                # -rest violates this row and no facet that is known: the way there meets a new one. Where it meets two
                # at once (symmetric tiles), other inner points have other ways there.
                aside = np.cos(0.7548776662 * (attempt + 1) * np.arange(1, len(center) + 1))
                aside *= (room if attempt else 0.0) / np.sqrt(_dot(aside, aside))
                way = np.dot(-rest[:-1] / length, span) + aside * (rest[-1] / length / unit)
                found = shoot(
                    normals, above + np.dot(normals, aside), center + aside, way.reshape(1, -1), state, points
                )
            if found < 0:  # a combination of facets; or within rounding it only touches them
                state[row] = 0
            elif mixed[found]:
                cone[many] = rows[found]
                many += 1
    return True


@jit
def _middle(values):
    """The (upper) median."""
    return values[np.argsort(values)[len(values) // 2]]


@jit
def typical(heights):
    """The (upper) median distance of hyperplanes that do not pass through the origin; 1 if all do."""
    away = np.abs(heights[heights != 0.0])
    return _middle(away) if len(away) else 1.0


@jit
def inner_point(heights, normals, point, direction, ways):
    """An inner point, from a point of the edge and a direction that leads inside.

    Half way to the next wall, and from there half way to the walls on a few random ways: a mean of inner points is
    inside, and less near to walls than each.
    """
    step = np.inf
    for row in range(len(heights)):
        speed = -_dot(normals[row], direction)
        if speed > 1e-12:
            step = min(step, (heights[row] + _dot(normals[row], point)) / speed)
    if step == np.inf:
        step = 2.0 * typical(heights)
    start = point + 0.5 * step * direction
    steps = np.full(len(ways), np.inf)
    least = np.inf
    for row in range(len(heights)):
        above = heights[row] + _dot(normals[row], start)
        least = min(least, above)
        for way in range(len(ways)):
            speed = -_dot(normals[row], ways[way])
            if speed > 1e-12:
                steps[way] = min(steps[way], above / speed)
    most = 4 * _middle(steps)
    if most == np.inf:
        most = typical(heights)
    moved = start.copy()
    for way in range(len(ways)):
        moved += 0.5 * min(steps[way], most) / len(ways) * ways[way]
    for row in range(len(heights)):
        if heights[row] + _dot(normals[row], moved) <= least:
            return start
    return moved


@jit
def are_apart(heights, normals, hashing):
    """Whether no two rows are one hyperplane, by their projections `hashing` `[r + 1]`; False may be a false alarm."""
    keys = np.abs(heights)
    unit = typical(heights)
    size = normals.shape[1]
    for row in range(len(heights)):
        keys[row] = _dot(normals[row], hashing[:size]) + heights[row] / unit * hashing[size]
    order = np.argsort(keys)
    apart = True
    for i in range(1, len(order)):
        apart &= keys[order[i]] - keys[order[i - 1]] > SAME * (2 + abs(heights[order[i]]) / unit)
    return apart


@jit
def settle(heights, normals, kept, starts, directions, ways, rays, hashing, centers, apart, state, points):
    """Centers and facets of many small polytopes at once, as far as all their rows are apart.

    Of all units, `[K, n]` heights and `[K, n, r]` normals, those `kept` make a halfspace. `starts` and `directions` are
    a point of each one's edge and a way inside; `ways`, `rays` and `hashing` random directions, for inner points, to
    find facets, and of rows. The last four are filled in, `state` and `points` from the left, for rows that are kept.
    """
    total, size = normals.shape[1:]
    span, mixed = np.eye(size), np.ones(total, np.bool_)
    own, above, rows = np.empty((total, size)), np.empty(total), np.empty((total, size + 1))
    for k in range(len(heights)):
        many = 0
        for row in range(total):
            if kept[k, row]:
                own[many], above[many] = normals[k, row], heights[k, row]
                many += 1
        walls, distances = own[:many], above[:many]
        centers[k] = inner_point(distances, walls, starts[k], directions[k], ways)
        apart[k] = many > 0 and are_apart(distances, walls, hashing)
        if not apart[k]:
            continue
        scale = max(typical(distances), np.sqrt(_dot(centers[k], centers[k])))
        for row in range(many):
            above[row] += _dot(own[row], centers[k])
        unit = _middle(distances)
        apart[k] = distances.min() > 0.0 and ROUNDING * scale < REDUNDANT * unit
        if not apart[k]:
            continue
        for row in range(many):
            height = above[row] / unit
            length = np.sqrt(1 + height * height)
            rows[row, :size] = own[row] / length
            rows[row, size] = height / length
        shoot(walls, distances, centers[k], -walls, state[k], points[k])
        shoot(walls, distances, centers[k], rays, state[k], points[k])
        asked = np.argsort(distances)
        apart[k] = decide(
            walls, distances, centers[k], rows[:many], mixed, span, unit, asked, state[k], points[k]
        )  # what did not converge is told where it is asked again

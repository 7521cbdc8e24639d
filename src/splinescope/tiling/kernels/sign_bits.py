"""Signs as bits: two planes of 64-bit words per vertex, and what can be asked of them."""

from __future__ import annotations

import numba
import numba.extending
import numpy as np
from llvmlite import ir

from splinescope.support.compile import in_place

inlined = in_place(inline="always")
"""For helpers of inner loops: a call with a dozen arrays costs more than most of them do."""


@inlined
def mix(a, b, unit):
    """A 64-bit name for the vertex that `unit` cuts on the edge between vertices named a < b."""
    # products spread low bits upwards only, shifts bring them back: as the finishers of common hashes do
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h = (h + np.uint64(b)) * np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    h = (h + np.uint64(unit) + np.uint64(1)) * np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(32)
    return h


def mix_in_python(a: int, b: int, unit: int) -> int:
    """`mix` of few names: compiling it takes longer."""
    low = 2**64 - 1
    h = a * 0x9E3779B97F4A7C15 & low
    h ^= h >> 29
    h = (h + b) * 0xBF58476D1CE4E5B9 & low
    h ^= h >> 32
    h = (h + unit + 1) * 0x94D049BB133111EB & low
    h ^= h >> 29
    h = h * 0x9E3779B97F4A7C15 & low
    return h ^ h >> 32


@numba.extending.intrinsic
def lowest_bit(context, word):
    """Index of the lowest set bit of a non-zero word: one machine instruction."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))  # 1: undefined for zero, which saves a branch

    return numba.types.int64(numba.types.uint64), generate


@numba.extending.intrinsic
def count_bits(context, word):
    """How many bits of a word are set: one machine instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return numba.types.int64(numba.types.uint64), generate


@in_place
def sign_bits(cuts, tol, start, stop, pos, neg):
    """Fill the bit-planes of vertices start..stop from their pre-activations."""
    units = cuts.shape[1]
    for v in range(start, stop):
        row = cuts[v]
        for w in range(pos.shape[1]):
            p = np.uint64(0)
            n = np.uint64(0)  # what is neither is zero to rounding: on the fold itself
            low = w * 64
            for k in range(min(64, units - low)):  # no branches: the compiler takes several units at once
                z = row[low + k]
                t = tol[low + k]
                p |= np.uint64(z > t) << np.uint64(k)
                n |= np.uint64(z < -t) << np.uint64(k)
            pos[v, w] = p
            neg[v, w] = n


@inlined
def range_mask(word_index, first, last):
    """Bits of one word that stand for units first <= k < last."""
    low = word_index * 64
    mask = ~np.uint64(0)
    if first > low:
        if first - low >= 64:
            return np.uint64(0)  # a shift by 64 or more is undefined
        mask &= ~np.uint64(0) << np.uint64(first - low)
    if last < low + 64:
        if last <= low:
            return np.uint64(0)
        mask &= ~np.uint64(0) >> np.uint64(low + 64 - last)
    return mask


@in_place
def count_cutting_units(offsets, corners, pos, neg, first, counts):
    """counts[i] = how many units >= first take both signs on tile i."""
    words = pos.shape[1]
    for i in range(offsets.shape[0] - 1):
        total = 0
        for w in range(first // 64, words):
            p = np.uint64(0)
            n = np.uint64(0)
            for c in range(offsets[i], offsets[i + 1]):
                p |= pos[corners[c], w]
                n |= neg[corners[c], w]
            total += count_bits(p & n & range_mask(w, first, words * 64))
        counts[i] = total


@in_place
def nth_cutting_unit(offsets, corners, pos, neg, first, nth):
    """The unit just past the nth (from 1) unit >= first that takes both signs on some tile; all if fewer."""
    words = pos.shape[1]
    seen = 0
    for w in range(first // 64, words):
        m = np.uint64(0)
        for i in range(offsets.shape[0] - 1):
            p = np.uint64(0)
            n = np.uint64(0)
            for c in range(offsets[i], offsets[i + 1]):
                p |= pos[corners[c], w]
                n |= neg[corners[c], w]
            m |= p & n
        m &= range_mask(w, first, words * 64)
        while m != 0:
            k = lowest_bit(m)
            m &= m - np.uint64(1)  # clears the lowest bit
            seen += 1
            if seen == nth:
                return w * 64 + k + 1
    return words * 64


@inlined
def next_cutting_unit(corners, start, stop, pos, neg, first, last, left):
    """(the lowest unit first <= k < last that takes both signs on a tile, or -1; the others of its word that do).

    `left` has the bits of the units of the word of `first` that may: those that cut the tile this one is a part of.
    """
    for w in range(first // 64, (last + 63) // 64):
        m = left & range_mask(w, first, last)
        left = ~np.uint64(0)  # of the next word nothing is known yet
        if m == 0:
            continue
        p = np.uint64(0)
        n = np.uint64(0)
        for c in range(start, stop):
            v = corners[c]
            p |= pos[v, w]
            n |= neg[v, w]
        m &= p & n
        if m != 0:
            return w * 64 + lowest_bit(m), m & (m - np.uint64(1))
    return -1, left


@inlined
def sign_of(v, k, pos, neg):
    bit = np.uint64(1) << np.uint64(k % 64)
    if pos[v, k // 64] & bit:
        return 1
    if neg[v, k // 64] & bit:
        return -1
    return 0

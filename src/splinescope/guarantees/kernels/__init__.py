"""Compiled loops of the guarantees: bounds on tiles.

In: arrays. Out: arrays. Imports `support`.
"""

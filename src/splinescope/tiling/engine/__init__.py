"""Cuts tiles fold by fold: a program and a domain in, finished tiles with their vertices and outputs out.

Never sees a `Tiling`. Imports `network`, `slice`, `cells`, `files`, `kernels` and `support`.
"""

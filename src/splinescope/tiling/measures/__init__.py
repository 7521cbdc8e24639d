"""Functions of a `Tiling`: what can be read off finished tiles, one file per kind of answer.

Imports `approximation`, `slice`, `network`, `engine`, `cells`, `kernels` and `support`.
"""

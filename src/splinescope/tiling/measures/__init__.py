"""Functions of a `Tiling`: what can be read off finished tiles, one file per kind of answer.

Imports `network`, `engine`, `cells`, `kernels` and `support`; of the tilings' own files `slice` and `approximation`.
"""

"""Tilings on disk and as other libraries' geometries.

In: a `Tiling`; out: files, and back. Nothing in a file is executed or trusted.
"""

"""How cells of any dimension are stored: intervals and polygons as corner lists, polytopes with their facets.

Imports `kernels` and `support`.
"""

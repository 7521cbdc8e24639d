"""How cells of any dimension are stored: intervals and polygons as corner lists, polytopes with their facets.

In: corners and the folds that cut them. Out: cells. Imports `approximation`, `kernels` and `support`.
"""

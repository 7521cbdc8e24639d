"""What normalization does to folds, and how it is merged away or placed otherwise.

In: networks in training and their data. Out: changed networks, callbacks and results. Imports `folds`, `drawings` and
what measures in `splinescope`.
"""

"""Where folds pass and what they do: along depth, near data, at the decision boundary, in training; moved at will.

In: networks, tilings and data. Out: monitors and results. Imports `drawings`, `arguments` and what measures in
`splinescope`.
"""

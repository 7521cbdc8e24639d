"""The loss as a function of parameters: exact sections of it, its breaks, its curvature, and steps made of these.

In: networks with data and targets. Out: results and an optimizer. Imports `drawings`, `arguments` and what measures in
`splinescope`.
"""

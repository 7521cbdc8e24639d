"""Mean-field neurons as a measure: its flow, its geometry, its optima, and how width converges to it.

In: two-layer networks and data. Out: results. Imports `drawings` and `splinescope.meanfield`.
"""

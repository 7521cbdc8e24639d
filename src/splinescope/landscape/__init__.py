"""The loss as a piecewise quadratic of a layer's parameters, its curvature, and why skip connections help."""

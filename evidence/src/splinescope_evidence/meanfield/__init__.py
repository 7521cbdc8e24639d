"""A Riemannian Mean Field Formulation for Two-layer Neural Networks with Batch Normalization."""

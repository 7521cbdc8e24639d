"""Batch Normalization Decomposed."""

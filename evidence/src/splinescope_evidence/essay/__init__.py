"""Batch Normalization, Explained (essay)."""

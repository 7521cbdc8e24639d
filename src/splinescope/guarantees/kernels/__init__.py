"""Compiled loops of the guarantees: bounds on tiles."""

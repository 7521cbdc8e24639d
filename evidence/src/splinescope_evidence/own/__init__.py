"""Claims of our own, of no document."""

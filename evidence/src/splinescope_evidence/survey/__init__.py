"""On the Geometry of Deep Learning: its figures and equations, claims of its text, and its open questions."""

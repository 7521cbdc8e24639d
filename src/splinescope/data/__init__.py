"""Sets to look at networks with, as tensors: toys in the plane, scikit-learn's digits, Fashion-MNIST.

Imports `support` alone.
"""

from .digits import digits
from .fashion import fashion_mnist
from .toys import star, two_moons

__all__ = [
    "digits",
    "fashion_mnist",
    "star",
    "two_moons",
]

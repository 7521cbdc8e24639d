"""Sets to look at networks with: toys in the plane, scikit-learn's digits, some of MNIST, Fashion-MNIST."""

from .digits import digits
from .fashion import fashion_mnist
from .mnist import mnist_5k
from .toys import star, two_moons

__all__ = [
    "digits",
    "fashion_mnist",
    "mnist_5k",
    "star",
    "two_moons",
]

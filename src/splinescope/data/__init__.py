"""Sets to look at networks with: toys in the plane, scikit-learn's digits, Fashion-MNIST.

In: a size and a seed. Out: tensors of points and labels. Imports `support`.
"""

from .digits import digits
from .fashion import fashion_mnist
from .toys import star, two_moons

__all__ = ["digits", "fashion_mnist", "star", "two_moons"]

"""Sets to look at networks with: toys in the plane, the digits that scikit-learn carries, Fashion-MNIST."""

from .digits import digits as digits
from .fashion import fashion_mnist as fashion_mnist
from .toys import star as star
from .toys import two_moons as two_moons

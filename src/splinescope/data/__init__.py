"""Sets to look at networks with: toys in the plane, scikit-learn's digits, some of MNIST, Fashion-MNIST."""

from .digits import digits as digits
from .fashion import fashion_mnist as fashion_mnist
from .mnist import mnist_5k as mnist_5k
from .toys import star as star
from .toys import two_moons as two_moons

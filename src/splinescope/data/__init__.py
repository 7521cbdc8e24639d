"""Small sets to look at networks with: toys in the plane, and the digits that scikit-learn carries."""

from .digits import digits as digits
from .toys import star as star
from .toys import two_moons as two_moons

"""Two-layer batch-norm networks as particles flowing on a manifold: batch norm as a change of metric."""

from .data import Data as Data
from .data import Gaussian as Gaussian
from .flow import Trajectory as Trajectory
from .flow import descend as descend
from .flow import flow as flow
from .functions import Activation as Activation
from .functions import Loss as Loss
from .manifold import Manifold as Manifold
from .measure import ParticleMeasure as ParticleMeasure
from .measure import bounded_lipschitz as bounded_lipschitz
from .measure import sliced_wasserstein2 as sliced_wasserstein2
from .measure import wasserstein2 as wasserstein2
from .networks import TwoLayer as TwoLayer
from .networks import TwoLayerBN as TwoLayerBN

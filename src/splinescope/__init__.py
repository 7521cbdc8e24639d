"""splinescope: a microscope for the geometry of deep networks.

A PyTorch module (or an ONNX file) goes in; exact tiles, folds, slopes, boundaries, complexity, curvature and
volumes come out. What most users need stands here, the rest in the parts (`ss.meanfield.flow`); `__init__.pyi` is the
list. Importing this package does no work: each name is loaded when first used.

    >>> import splinescope as ss
    >>> view = ss.Slice.through(x0, x1, x2, pad=0.1)    # doctest: +SKIP
    >>> tiling = ss.tessellate(model, view)             # doctest: +SKIP
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

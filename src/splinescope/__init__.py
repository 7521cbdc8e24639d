"""splinescope: a microscope for the geometry of deep networks.

A PyTorch module (or an ONNX file) goes in; exact tiles, folds, slopes, boundaries, complexity, curvature and
volumes come out. What most users need stands here, the rest in the parts (`ss.meanfield.flow`); `__init__.pyi` is the
list. Importing this package does no work: each name is loaded when first used.

    >>> import splinescope as ss
    >>> view = ss.Slice.through(x0, x1, x2, pad=0.1)    # doctest: +SKIP
    >>> tiling = ss.tessellate(model, view)             # doctest: +SKIP
"""

import sys
from functools import partial
from types import ModuleType

import lazy_loader

from .support.threads import ALONE

__version__ = "1.0.0rc1"

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def _missing(part: str, names: list[str], name: str) -> object:
    from .support.errors import did_you_mean

    told = f"{part} has no attribute {name!r}{did_you_mean(name, names)}"
    raise AttributeError(told, name=None, obj=None)  # a name would have Python suggest a second time


def __getattr__(name: str) -> object:
    """A public name, loaded now; one that is not there is answered with the nearest that is."""
    if name in __all__ or name.startswith("_"):
        with ALONE:  # parts import one another: two threads at it would find each other's half-loaded
            return _load(name)
    return _missing(__name__, __all__, name)


class _Package(ModuleType):
    """This package, whose parts answer a misspelled name as it does: the import of a part ends by setting it here."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and hasattr(value, "__all__"):
            value.__getattr__ = partial(_missing, value.__name__, value.__all__)  # type: ignore[method-assign]
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

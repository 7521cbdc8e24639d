"""A model as it answers, in the middle of its training."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the time of the context; each module's own flag comes back.

    By the flags alone: exported modules refuse `eval()`, and with others it does more (merges adapters, say), which
    flags would not bring back.
    """
    flags = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in flags:
            module.training = False
        yield
    finally:
        for module, flag in flags:
            module.training = flag

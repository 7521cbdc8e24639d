"""Which modules come right before and after which, by the calls of a model."""

from typing import NamedTuple

from torch import nn

WEIGHTED = (
    *(nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)
"""Layers with weights of their own, as torch makes them."""


class Call(NamedTuple):
    """A value, what it is made of, and the module that makes it; not `whole` if it is only a part of what that does."""

    output: str
    inputs: tuple[str, ...]
    path: str
    whole: bool


class Graph:
    """Who comes right before and right after a module, where that is one module, used once, for this alone."""

    def __init__(self, model: nn.Module, calls: list[Call], shapes: dict[str, tuple[int, ...]], output: str) -> None:
        self.model, self.calls, self.shapes, self.output = model, calls, shapes, output
        self.path_of = {call.output: call.path for call in calls}
        self.used_by: dict[str, list[str]] = {}
        for call in calls:
            for name in call.inputs:
                self.used_by.setdefault(name, []).append(call.output)

    def _call_of(self, path: str) -> Call | None:
        """The one call of a module, if it is called once."""
        module = self.model.get_submodule(path)
        calls = [call for call in self.calls if self.model.get_submodule(call.path) is module]
        return calls[0] if len(calls) == 1 and calls[0].whole else None

    def _weighted(self, name: str) -> nn.Module | None:
        """The Linear or convolution that makes a value, if it makes nothing else and owns its tensors."""
        path = self.path_of.get(name)
        module = None if path is None else self.model.get_submodule(path)
        if not isinstance(module, WEIGHTED) or self._call_of(path or "") is None or not owns_weights(module):
            return None
        if isinstance(module, nn.Linear) and len(self.shapes.get(name, ())) > 1:
            return None  # of its many axes, batch norm's channels are not the features
        shared = sum(p is module.weight for m in self.model.modules() for p in m._parameters.values())
        return module if shared == 1 else None

    def before(self, path: str) -> nn.Module | None:
        call = self._call_of(path)
        if call is None:
            return None
        (source,) = call.inputs
        return self._weighted(source) if self.used_by[source] == [call.output] else None

    def after(self, path: str) -> nn.Module | None:
        call = self._call_of(path)
        if call is None or call.output == self.output or len(self.used_by.get(call.output, [])) != 1:
            return None
        return self._weighted(self.used_by[call.output][0])


def owns_weights(module: nn.Module) -> bool:
    """Whether the weight is a plain parameter: not one that weight norm, spectral norm or pruning computes."""
    return "weight" in module._parameters and not hasattr(module, "parametrizations")

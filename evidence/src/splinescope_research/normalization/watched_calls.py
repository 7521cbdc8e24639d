"""Which modules come right before and after which, seen while a model runs on a few rows.

Unlike what is read without an input (`torch.fx`) or from an exported program, this needs neither one path through the
code nor one input, one output or layers that are piecewise affine; and it knows all shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree

from splinescope.network.ops.python_names import FACTS, plain_name
from splinescope.network.outputs import leaves_of
from splinescope.network.watching.intercept import Functions, Hooked
from splinescope.network.watching.module_graph import WEIGHTED, Call, Graph
from splinescope.network.watching.undisturbed import undisturbed

Run = Callable[[nn.Module], Any]
"""How to run a model on the rows at hand."""


def outputs(model: nn.Module, run: Run) -> list[Tensor]:
    """Every floating-point tensor that a model returns in evaluation mode."""
    with undisturbed(model):
        leaves = [leaf for _, leaf in leaves_of(run(model))]
        held = [value for leaf in leaves for value in (getattr(leaf, "__dict__", None) or {}).values()]  # data classes
        tensors = [t for t in [*leaves, *held] if isinstance(t, Tensor) and t.is_floating_point()]
        return [t.detach().clone() for t in tensors]


def watched(model: nn.Module, run: Run) -> Graph:
    """The calls of a model while it runs."""
    seen = _Calls(model)
    with undisturbed(model), seen.hooked(model), seen:
        seen.ends(run(model))
    return seen.graph()


class _Calls(Functions):
    """Collects who makes and who uses each tensor; what happens inside a layer or norm is one call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model, self._inside = model, 0
        self._calls: list[Call] = []
        self._held: list[Tensor] = []  # so that no two of them have one id
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._weights: Counter[int] = Counter()  # in how many function calls a tensor takes part

    def _names(self, values: Any) -> tuple[str, ...]:
        found = [leaf for leaf in _pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
        self._held += found
        self._shapes.update({str(id(t)): tuple(t.shape[1:]) for t in found})
        return tuple(dict.fromkeys(str(id(t)) for t in found))

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = func(*args, **kwargs)
        given, made = self._names((args, kwargs)), self._names(result)
        if made or plain_name(func) not in {*FACTS, "type"}:  # which says its name or casts
            self._weights.update(map(int, given))
            if not self._inside:
                self._add(made or (f"effect {len(self._calls)}",), given, "", whole=False)
        return result

    def _add(self, made: tuple[str, ...], given: tuple[str, ...], path: str, whole: bool) -> None:
        self._calls += [Call(name, given, path, whole) for name in made]

    def ends(self, result: Any) -> None:
        """What is returned is used."""
        self._add(("output",), self._names(result), "", whole=False)

    def hooked(self, model: nn.Module) -> Hooked:
        """Watch layers and norms as wholes, and what the model itself returns even if its caller drops it."""
        whole = [
            (path, module)
            for path, module in model.named_modules()
            if (isinstance(module, WEIGHTED) and type(module).__module__.startswith("torch.nn"))
            or isinstance(module, _BatchNorm)
        ]
        return Hooked(
            before=[(module, self._enter) for _, module in whole],
            after=[(model, self._returned), *((module, self._leave(path)) for path, module in whole)],
            with_kwargs=True,
        )

    def _returned(self, module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
        self.ends(result)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._inside += 1

    def _leave(self, path: str) -> Any:
        def leave(module: nn.Module, args: Any, kwargs: Any, result: Any) -> None:
            self._inside -= 1
            given, made = self._names((args, kwargs)), self._names(result)
            self._add(made, given, path, whole=len(given) == len(made) == 1)

        return leave

    def graph(self) -> Graph:
        """What was seen; a layer whose weight other calls use too is not whole."""
        calls = [call._replace(whole=call.whole and not self._shared(call.path)) for call in self._calls]
        return Graph(self._model, calls, self._shapes, "output")

    def _shared(self, path: str) -> bool:
        weight = self._model.get_submodule(path)._parameters.get("weight")
        return weight is not None and self._weights[id(weight)] > 1

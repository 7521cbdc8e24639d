"""`CurvatureMonitor`: the sharpness of the loss while a network trains."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..network.watching.batch_statistics import Statistics, choose, measured_with
from ..support.evaluating import evaluating
from ..train import TrainingMonitor
from ..train.journal import Record
from ..train.schedules import BUDGET, Schedule
from .hessian import curvature
from .inputs import Layers, Loss, check_data
from .spectrum import extreme_eigenvalues


class CurvatureMonitor(TrainingMonitor):
    """Measures the curvature of the loss at chosen steps of a training loop and writes it down.

    Same interface as `ComplexityMonitor`: `step`, `measure`, `records`, `overhead`, `close`. Each record holds, per
    layer, the largest eigenvalue (`largest`) and the trace (`trace`, an estimate by random signs, the same at all
    steps) of the curvature matrix; under the layer's path, or "all" for the whole network.

    Args:
        model: The network in training. It is left as found by every measurement (which happens in eval mode).
        x: `[N, ...]` data on which curvature is measured; a few hundred points are usual.
        y: Their targets.
        loss: As for `curvature`.
        kind: "ggn" or "hessian".
        layers: Module paths to measure one by one, None among them for the whole network.
        probes: Random vectors of the trace.
        seed: Of the random vectors.
        schedule, metrics, logger, snapshots, budget: As for `ComplexityMonitor`.
        out: Folder for `curvature.jsonl` and snapshots; an interrupted run is continued.
        statistics: For networks with batch norm: "data" measures with the statistics of `x`, "running" with the running
            averages, which lag behind the weights; either are held while parameters move. "data" by default, but
            "running" for token ids. Every record says which in `statistics` ("none" without batch norm).

    Cost: some 20 to 60 products per layer, each about 3 gradients of the data.

    Example:
        >>> monitor = CurvatureMonitor(model, x, y, loss="cross_entropy")    # doctest: +SKIP
    """

    name = "curvature"
    drawn_as = "curvature"

    def __init__(
        self, model: nn.Module, x: Tensor, y: Tensor, *, loss: Loss = "squared",
        kind: Literal["ggn", "hessian"] = "ggn", layers: tuple[Layers, ...] = (None,), probes: int = 8, seed: int = 0,
        schedule: Schedule | None = None, metrics: Mapping[str, Callable[[nn.Module], float]] | None = None,
        out: str | os.PathLike[str] | None = None, logger: Any = None, snapshots: bool = False,
        budget: float | None = BUDGET, statistics: Statistics | None = None,
    ) -> None:  # fmt: skip
        self._data = check_data(x, y, torch.float64, whole=True)
        self._how: dict[str, Any] = {"loss": loss, "kind": kind}
        self._layers = {"all" if layer is None else str(layer): layer for layer in layers}
        self._probes, self._seed = probes, seed
        rows = self._data[0]
        self._statistics = choose(statistics, model, len(rows) if rows.is_floating_point() else 1)
        header = {"loss": loss if isinstance(loss, str) else "a function", "kind": kind, "layers": list(self._layers),
                  "points": len(self._data[0]), "probes": probes, "seed": seed,
                  "statistics": self._statistics}  # fmt: skip
        super().__init__(model, header, schedule=schedule, metrics=metrics, out=out, logger=logger,
                         snapshots=snapshots, budget=budget)  # fmt: skip

    def _what(self) -> str:
        norms = "" if self._statistics == "none" else f", batch norm with {self._statistics} statistics"
        kind = {"ggn": "Gauss-Newton matrix", "hessian": "Hessian"}[self._how["kind"]]
        trace = f"trace (an estimate by {self._probes} random signs)"
        return f"Largest eigenvalue (by Lanczos) and {trace} of the {kind}{norms}."

    def _measurements(self) -> Record:
        record: Record = {"statistics": self._statistics}
        finite = all(bool(p.isfinite().all()) for p in self.model.parameters())
        with evaluating(self.model), measured_with(self._statistics, self.model, self._data[0]):
            for name, layer in self._layers.items():
                if not finite:  # training has diverged; it is not the monitor that should end it
                    record |= {f"{name}/largest": math.nan, f"{name}/trace": math.nan}
                    continue
                matrix = curvature(self.model, *self._data, layer=layer, **self._how)
                generator = torch.Generator().manual_seed(self._seed)
                signs = torch.randint(0, 2, (matrix.shape[0], self._probes), generator=generator).numpy() * 2.0 - 1.0
                record[f"{name}/largest"] = float(extreme_eigenvalues(matrix, 1, generator=generator)[0])
                record[f"{name}/trace"] = float((signs * (matrix @ signs)).sum(0).mean())
        return record

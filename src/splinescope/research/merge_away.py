"""Batch norm early, none later: a norm that is merged into its neighbours while training goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils import _pytree

from ..network.readable import unwrap
from ..network.reading.twin import copied
from ..network.watching.batch_statistics import Forward, batch_norms
from ..network.watching.intercept import Hooked
from ..network.watching.module_graph import Run, outputs
from ..normalization.merge_in_place import ROWS, check_normed, input_rows, merged_in_place, run_on, statistics_rows
from ..normalization.optimizer_groups import Structure, check_optimizer, put_back_on_error, restructure_
from ..support.checks import check_positive, check_whole
from ..support.display import Shown
from ..support.errors import InputError
from ..train import TrainingMonitor
from .plateau import plateaued


class MergeAway(Shown):
    """Trains with batch norm first and without it later: merges it away at a step, or when a monitored number plateaus.

    It is told each step like a monitor, so `lightning_callback` and `trainer_callback` take it too. At the change the
    function stays what it was in evaluation mode; from then on nothing pulls the folds to the batch.

    `DistributedDataParallel` holds the parameters that it was built with: on every process wrap the model anew where
    `step` returns True. Lightning and Hugging Face do not, so that their callbacks refuse it with several processes.

    Args:
        model: With batch norm; changed in place once.
        optimizer: The one that trains it, or a function that returns it when it is needed (in Lightning and Hugging
            Face, `lambda: trainer.optimizers[0]`, `trainer.create_optimizer`).
        at: The step to merge at (or the first one told after it).
        plateau: `(monitor, name)`: merge when that monitor's number (a `ComplexityMonitor`'s "points", say) has moved
            and, over the last stretch of training, hardly moves any more; see `plateaued`.
        patience: Number of records that the stretch must have.
        tolerance: How far the number may range on the stretch, relative to its range so far.
        span: The stretch reaches back to `1 / span` of the present step: 2 for the last half of training so far.
        earliest: Step before which no stretch begins.
        statistics: `[N, ...]` data to merge with, or a function that returns them then; running averages if None.
        x: `[N, ...]` rows of input on which it is seen that the outputs stay: of a copy at once, so that what cannot be
            merged is told before training, and of the model then. If None, a few rows of the batch that the model was
            last called with in training, which a hook keeps until then. Only if it was never called (but its parts
            were) or does not run on a few rows, calls are read as by `merge_batchnorm(model)` and nothing is compared.
        forward: How to call the model on `x` and `statistics`, `(model, x) -> anything`; `model(x)` if None.

    Attributes:
        merged_at: The step of the change; None before it.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        >>> optimizer = torch.optim.Adam(net.parameters())
        >>> schedule = MergeAway(net, optimizer, at=3)
        >>> for step in range(5):
        ...     if schedule.step(step):
        ...         print("merged before step", step)
        ...     loss = net(torch.randn(16, 2)).square().mean()
        ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
        merged before step 3

    A checkpoint has the state of the schedule too, which says how the merged network is built. Given first, to the
    schedule of a new network, it builds that one and its optimiser likewise, and their own states then fit:

        >>> kept = [part.state_dict() for part in (schedule, net, optimizer)]
        >>> again = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        >>> adam = torch.optim.Adam(again.parameters())
        >>> for part, state in zip((MergeAway(again, adam, at=3), again, adam), kept):
        ...     _ = part.load_state_dict(state)
        >>> torch.equal(again(torch.ones(1, 2)), net(torch.ones(1, 2)))
        True

    Reference: Balestriero, Humayun, Baraniuk, "On the Geometry of Deep Learning", which asks for the best of both:
    batch norm's folds at the data early, their migration to the boundary late.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Callable[[], Optimizer],
        *,
        at: int | None = None,
        plateau: tuple[TrainingMonitor, str] | None = None,
        patience: int = 4,
        tolerance: float = 0.1,
        span: float = 2.0,
        earliest: int = 10,
        statistics: Tensor | Callable[[], Tensor] | None = None,
        x: Any = None,
        forward: Forward | None = None,
    ) -> None:
        if not isinstance(optimizer, Optimizer) and (not callable(optimizer) or isinstance(optimizer, nn.Module)):
            raise InputError(
                "optimizer must be the torch optimizer that trains the model, or a function that returns it (biases "
                f"that merging makes have to join it), got {type(optimizer).__name__}."
            )
        if (at is None) == (plateau is None):
            raise InputError("give either at=, a step, or plateau=, a monitor and the name of one of its numbers.")
        self._model, self._optimizer, self._statistics = model, optimizer, statistics
        self._at = None if at is None else check_whole(at, "at", least=0)
        if plateau is not None and not (
            isinstance(plateau, tuple) and len(plateau) == 2 and isinstance(plateau[0], TrainingMonitor)
        ):
            got = ", ".join(type(part).__name__ for part in plateau) if isinstance(plateau, tuple) else repr(plateau)
            raise InputError(f"plateau must be a pair (monitor, name of a number), got {got}.")
        check_normed(model)
        if isinstance(optimizer, Optimizer):
            check_optimizer(optimizer, unwrap(model))
        self._plateau = plateau
        self._patience = check_whole(patience, "patience", least=2)
        self._tolerance = check_positive(tolerance, "tolerance")
        self._span, self._earliest = check_positive(span, "span"), check_whole(earliest, "earliest", least=0)
        if self._span <= 1:
            raise InputError(f"span must be above 1, the ratio of a later step to an earlier one, got {span!r}.")
        self.merged_at: int | None = None
        self._structure: Structure | None = None
        self._earlier: list[tuple[int, float]] = []
        self._x, self._forward = None if x is None else input_rows(x), forward
        self._try()
        self._seen = LastSeen(model) if x is None else None

    def _try(self) -> None:
        """Merge a copy, if there are rows to do it on: what cannot be merged is better told now than then."""
        module = unwrap(self._model)
        untold = [path for path, norm in batch_norms(module).items() if norm.running_mean is None]
        if untold and self._statistics is None:
            raise InputError(
                f"statistics must be rows of input to merge with, or a function that returns them, since {untold[0]} "
                "keeps no running averages (track_running_stats=False), got None."
            )
        if self._x is not None and not untold:
            copy = copied(module)
            merged_in_place(copy, None, None, run_on(self._x, copy, self._forward), self._forward)

    def _shown(self) -> list[tuple[str, Any]]:
        when = ("at", self._at) if self._plateau is None else ("plateau", self._plateau[1])
        return [("model", type(self._model).__name__), when, ("merged_at", self.merged_at)]

    def step(self, step: int) -> bool:
        """Tell where training is; merges if that is due. Whether it did."""
        check_whole(step, "step", least=0)
        if self.merged_at is not None or not self._due(step):
            return False
        optimizer = self._optimizer if isinstance(self._optimizer, Optimizer) else self._optimizer()
        check_optimizer(optimizer, unwrap(self._model))
        statistics = None if self._statistics is None else self._rows()
        run = self._run(statistics)
        _, self._structure = merged_in_place(self._model, optimizer, statistics, run, self._forward)
        self.merged_at = int(step)
        self.finish(step)
        return True

    def state_dict(self) -> dict[str, Any]:
        """When it has merged (None: not yet) and what it has built otherwise since: numbers and words alone."""
        built = {} if self._structure is None else self._structure.plain()
        records = {} if self._plateau is None else {"records": [list(pair) for pair in self._records()]}
        return {"merged_at": self.merged_at, **built, **records}

    def load_state_dict(self, state: Mapping[str, Any], *, training: bool = True) -> None:
        """Go on from a state; if it has merged, build the network and its optimiser so that their states can be loaded.

        Give it before the states of the model and the optimiser: parameters that are new are zero until then.

        Args:
            state: As `state_dict` returned it; with what it knows of a plateau that is waited for.
            training: False where there is no optimiser, to evaluate the network alone.
        """
        structure, at = Structure.read(state), state["merged_at"]
        if self.merged_at is not None and (structure is None or structure != self._structure):
            raise InputError(
                f"state must be of a schedule that has merged the same norms, as this one at step {self.merged_at}, "
                f"got one with merged_at={at}; build the network and its schedule anew to load it."
            )
        self._earlier = [(int(step), float(value)) for step, value in state.get("records", ())]
        if structure is None or self.merged_at is not None:
            self.merged_at = at
            return
        optimizer = None
        if training:
            optimizer = self._optimizer if isinstance(self._optimizer, Optimizer) else self._optimizer()
            check_optimizer(optimizer, unwrap(self._model))
        with put_back_on_error(unwrap(self._model), optimizer):
            restructure_(unwrap(self._model), structure, optimizer)
        self._structure, self.merged_at = structure, at
        self.finish(at)

    def finish(self, step: int) -> None:
        """Training is over: nothing is merged any more; monitors measure then."""
        if self._seen is not None:
            self._seen.stop()

    def _rows(self) -> Tensor:
        """The data to merge with."""
        found = self._statistics() if callable(self._statistics) else self._statistics
        if found is None:
            raise InputError(
                "statistics must be rows of input or a function that returns them, got one that returns None."
            )
        return statistics_rows(found)

    def _run(self, statistics: Tensor | None) -> Run | None:
        """How to run the model on rows at hand: those given, the last seen, or those to merge with."""
        module = unwrap(self._model)
        if self._x is not None:
            return run_on(self._x, module, self._forward)
        run = None if self._seen is None else self._seen.run()
        if run is not None:
            try:
                outputs(module, run)
            except Exception:  # any code of the model's: its arguments may not be rows of one batch
                run = None
        return run if run is not None or statistics is None else run_on(statistics, module, self._forward)

    def _due(self, step: int) -> bool:
        if self._at is not None:
            return step >= self._at
        records = self._records()
        return plateaued(
            [at for at, _ in records], [value for _, value in records], patience=self._patience,
            tolerance=self._tolerance, span=self._span, earliest=self._earliest,
        )  # fmt: skip

    def _records(self) -> list[tuple[int, float]]:
        """Steps and values of the number that is to plateau: those loaded, and the monitor's own after them."""
        assert self._plateau is not None
        monitor, name = self._plateau
        records = monitor.records
        if records and name not in records[-1]:
            raise InputError(f"plateau must name a number of the monitor's records, got {name!r}; there are: "
                             f"{', '.join(records[-1])}.")  # fmt: skip
        own = [(int(record["step"]), float(record[name])) for record in records]
        return [pair for pair in self._earlier if not own or pair[0] < own[0][0]] + own


class LastSeen:
    """A hook that keeps a few rows of the last batch; a copied or saved model has one that keeps nothing."""

    def __init__(self, model: nn.Module) -> None:
        self._given: tuple[Any, Any] | None = None
        self._handle: Any = Hooked(before=[(model, self._keep)], with_kwargs=True)

    def __getstate__(self) -> dict[str, Any]:
        return {"_given": None, "_handle": None}

    def _keep(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or self._handle is None or not model.training:
            return
        tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not tensors or any(not _plain(t) for t in tensors):
            return
        count = len(tensors[0]) if tensors[0].dim() else None

        def first(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            return leaf.detach()[:ROWS].clone() if leaf.dim() and len(leaf) == count else leaf.detach()

        self._given = _pytree.tree_map(first, (args, kwargs))

    def run(self) -> Run | None:
        """How to run a model on what was seen; None if nothing was."""
        if self._given is None:
            return None
        args, kwargs = self._given
        return lambda model: model(*args, **kwargs)

    def stop(self) -> None:
        """Take the hook off and let go of the rows."""
        if self._handle is not None:
            self._handle.remove()
        self._given = self._handle = None


def _plain(tensor: Tensor) -> bool:
    """Whether it holds numbers that outlive the call: neither fake nor inside a transform of torch.func."""
    return type(tensor) in (Tensor, nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)

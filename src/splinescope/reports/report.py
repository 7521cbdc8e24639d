"""`report`: everything this package can say about a network and its data, in one call and on one page."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..support.display import CERTAINTIES, Certainty, Result
from ..support.errors import InputError, SplinescopeError, did_you_mean
from ..support.files import check_writable, replacing
from ..support.progress import Progress, telling
from . import loss, near_data, one_input, structure, through_depth
from .block import NotApplicable, ReportBlock
from .page import MARK, notebook, page
from .subject import Subject, as_subject
from .typical import compared, top_findings

BLOCKS: dict[str, tuple[str, Callable[[Subject], ReportBlock]]] = {
    "network": ("What was read", structure.network),
    "folds": ("Folds and data", structure.folds),
    "complexity": ("Local complexity", near_data.complexity),
    "tiles": ("Tiles on a plane", near_data.tiles),
    "margins": ("Distances to the edge", near_data.margins),
    "walls": ("The tile of one input", one_input.walls),
    "proven": ("Proven near one input", one_input.proven),
    "depth": ("The batch through depth", through_depth.depth),
    "curvature": ("Curvature of the loss", loss.loss_curvature),
    "surface": ("Loss surface", loss.surface),
    "volume": ("Volume factors", through_depth.volume),
}
"""Key -> title and what measures it, in the order of the page."""


CALLS = "Calls below: import splinescope as ss; x and y are the data as tensors, model is "
"""What they need, for a page."""


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """What `report` found.

    Attributes:
        blocks: In the order of the page; `report["tiles"]` is one of them.
        points: Number of data points given.
        page: The page that was written, or None.
        loss: The loss that was taken and why, in words; empty without targets.
    """

    blocks: tuple[ReportBlock, ...]
    points: int
    page: Path | None
    loss: str = ""

    @property
    def certainty(self) -> Certainty:
        """That of the least sure block; each says its own."""
        return weakest(block.certainty for block in self.blocks if block.state == "measured")

    def __repr__(self) -> str:
        states = [block.state for block in self.blocks]
        failed = f", {states.count('failed')} failed" if "failed" in states else ""
        page = "" if self.page is None else f", page {str(self.page)!r}"
        return f"Report({states.count('measured')} of {len(states)} blocks on {self.points} points{failed}{page})"

    def __getitem__(self, key: str) -> ReportBlock:
        for block in self.blocks:
            if block.key == key:
                return block
        raise KeyError(f"{key}: the report has {', '.join(block.key for block in self.blocks)}")

    def __iter__(self) -> Iterator[ReportBlock]:
        return iter(self.blocks)

    def records(self) -> dict[str, Any]:
        """Every number and text, ready for JSON."""
        blocks = {block.key: block.record() for block in self.blocks}
        return {"points": self.points, "loss": self.loss, "blocks": blocks}

    def summary(self) -> str:
        """The report in words: what to know first, with what to do and the call, then every block."""
        first = [f"{i}. {b.finding}\n   {b.advice}\n   {b.call}" for i, b in enumerate(top_findings(self.blocks), 1)]
        lines = ["What to know first:", *first, ""] if first else []
        if self.loss:
            lines.append(f"Loss: {self.loss}.")
        return "\n".join([*lines, *(block.summary() for block in self.blocks)])

    def _repr_html_(self) -> str:
        """For notebooks: every block with its picture, as far as those can be drawn."""
        return notebook(repr(self), self.blocks)


def report(
    model: Any, x: Any, y: Any = None, *, out: str | os.PathLike[str] | None = None,
    loss: str | Callable[[Any, Any], Any] | None = None, include: Collection[str] | None = None,
    exclude: Collection[str] = (), title: str | None = None, seed: int = 0, progress: Progress | bool | None = None,
) -> Report:  # fmt: skip
    """Measure a network on its data with every part of this package that applies; with `out`, as one page.

    Each block says whether it is exact, a bound or an estimate, how to read it, how it compares with other networks,
    and the call that gives more. A block that does not apply says why.

    Args:
        model: A module in evaluation mode, or the result of `trace` or `load`. It is not changed.
        x: `[N, *input shape]` inputs (for a generator: latents); a few hundred are enough.
        y: `[N]` class numbers, one-hot rows or `[N, ...]` targets; without them what needs a loss does not apply.
        out: The page, one file without links out. The numbers go to a .json of the same name beside it. They replace
            an earlier report's, and no other files. None writes nothing.
        loss: "squared", "mse", "cross_entropy", "bce", or a function (outputs, targets) -> mean over rows. None takes
            the one that `y` suggests: cross-entropy for classes (also as floats or one-hot rows; binary for one
            output), else the squared error. The report says which and why.
        include: Keys of blocks (see `splinescope.reports.report.BLOCKS`); all of them by default.
        exclude: Keys of blocks to leave out.
        title: Heading of the page; the model's class by default.
        seed: Of everything random.
        progress: None: shown once it takes a few seconds; True, False, or a function of (share done, what it is at).

    Cost: tens of seconds for small networks, minutes for a ResNet-20. Sample sizes shrink as networks grow, by no
    clock: a report holds the same on every machine. The page is written anew after every block.

    Example:
        >>> import torch, splinescope as ss
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()
        >>> found = ss.report(net, torch.randn(50, 2), include=["network", "tiles"], progress=False)
        >>> found["tiles"].state
        'measured'
    """
    subject = as_subject(model, x, y, seed, loss)
    keys = chosen_blocks(include, exclude)
    name = title or f"Report on {type(getattr(model, 'module', model)).__name__}"
    blocks: list[ReportBlock] = []
    taken = ""
    with contextlib.suppress(NotApplicable):
        taken = str(subject.loss)
    if out is not None:
        check_page(out)
    with telling(progress, "report") as tell:
        subject = replace(
            subject, say=lambda text: tell(len(blocks) / len(keys), f"{BLOCKS[keys[len(blocks)]][0]}: {text}")
        )
        for key in keys:
            tell(len(blocks) / len(keys), BLOCKS[key][0])
            blocks.append(_measured(key, subject))
            if out is not None:
                _write(Report(tuple(blocks), len(subject.x), Path(out), taken), name)
        tell(1.0, "done")
    return Report(tuple(blocks), len(subject.x), None if out is None else Path(out), taken)


def check_page(out: str | os.PathLike[str]) -> None:
    """Refuse before the work what cannot be written: the numbers go beside the page, under its name with .json.

    A report may replace one, with its numbers, and nothing else.
    """
    page = check_writable(out)
    if page.suffix == ".json":
        raise InputError(f"out is the page, and its numbers go beside it as .json; got {str(out)!r}: end it in .html.")
    if page.exists():
        with page.open("rb") as file:
            taken = None if file.read(len(MARK)) == MARK.encode() else page
    else:
        taken = page.with_suffix(".json") if page.with_suffix(".json").exists() else None
    if taken is not None:
        raise InputError(f"{taken} is no report, and out={str(out)!r} would replace it: choose another name.")


def chosen_blocks(include: Collection[str] | None, exclude: Collection[str]) -> list[str]:
    """Keys of the blocks to measure, in the order of the page."""
    for name, given in (("include", include), ("exclude", exclude)):
        if isinstance(given, str):
            raise InputError(f"{name} must be a list of names, got {given!r}: write [{given!r}].")
        if unknown := sorted(set(given or ()) - set(BLOCKS)):
            near = did_you_mean(unknown[0], BLOCKS)
            raise InputError(f"{name} must hold names among {', '.join(BLOCKS)}, got {', '.join(unknown)}{near}")
    keys = [key for key in BLOCKS if (include is None or key in include) and key not in exclude]
    if not keys:
        raise InputError("include and exclude leave no block to measure.")
    return keys


def weakest(kinds: Iterable[Certainty]) -> Certainty:
    """The least sure of several; "exact" of none."""
    return max(kinds, key=CERTAINTIES.index, default="exact")


def _measured(key: str, subject: Subject) -> ReportBlock:
    """One block; what does not apply, or fails by itself, is lines in its place, and the others go on."""
    title, measure = BLOCKS[key]
    start = time.perf_counter()
    try:
        block = replace(measure(subject), key=key, title=title)
        block = replace(block, typical=compared(block))
    except (NotApplicable, SplinescopeError) as error:
        block = ReportBlock(key, title, "not applicable", reason=str(error))
    except Exception as error:  # a defect of ours or of the model's code: shown on the page, never hidden
        block = ReportBlock(key, title, "failed", reason=f"{type(error).__name__}: {error}")
    return replace(block, seconds=time.perf_counter() - start)


def _write(found: Report, title: str) -> None:
    assert found.page is not None
    loss = f"; loss: {found.loss}" if found.loss else ""
    subtitle = f"{found.points:,} data points{loss}. {CALLS}the network."
    write_page(found.page, page(title, found.blocks, subtitle), found.records())


def write_page(out: Path, text: str, records: Any) -> None:
    """A page, and its numbers beside it as .json."""
    with replacing(out) as partial:
        partial.write_text(text, encoding="utf-8")
    with replacing(out.with_suffix(".json")) as partial:
        partial.write_text(json.dumps(records, indent=1, default=float), encoding="utf-8")

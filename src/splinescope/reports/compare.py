"""`compare_models`: reports on several networks side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.display import Certainty, Result, table
from ..support.errors import InputError
from ..support.progress import Progress, telling
from .page import side_by_side
from .report import CALLS, Report, check_page, chosen_blocks, report, weakest, write_page
from .typical import MAIN, main_number


@dataclass(frozen=True, eq=False, repr=False)
class ModelComparison(Result):
    """Reports on several networks, on the same data.

    Attributes:
        reports: Name -> its report.
        page: The page that was written, or None.
    """

    reports: dict[str, Report]
    page: Path | None

    @property
    def certainty(self) -> Certainty:
        """That of the least sure block of any report."""
        return weakest(found.certainty for found in self.reports.values())

    def __repr__(self) -> str:
        page = "" if self.page is None else f", page {str(self.page)!r}"
        return f"ModelComparison({', '.join(self.reports)}{page})"

    def __getitem__(self, name: str) -> Report:
        return self.reports[name]

    def main_numbers(self) -> dict[str, dict[str, float | None]]:
        """Main number of each block -> name of the network -> value, None where it was not measured.

        A block that was measured on none of them has no row.
        """
        keys = [block.key for block in next(iter(self.reports.values())) if block.key in MAIN]
        rows = {MAIN[key]: {name: main_number(found[key]) for name, found in self.reports.items()} for key in keys}
        return {label: row for label, row in rows.items() if any(value is not None for value in row.values())}

    def records(self) -> dict[str, Any]:
        """Every number and text, ready for JSON."""
        return {name: found.records() for name, found in self.reports.items()}

    def summary(self) -> str:
        """A small table of the main numbers."""
        return f"{table(self.rows())}\n{self.assurance}"

    def rows(self) -> list[list[str]]:
        """The cells of that table, the names of the networks first."""
        numbers = self.main_numbers().items()
        rows = [[label, *("-" if v is None else f"{v:.4g}" for v in values.values())] for label, values in numbers]
        return [["", *self.reports], *rows]


def compare_models(
    models: Mapping[str, Any], x: Any, y: Any = None, *, out: str | os.PathLike[str] | None = None,
    loss: str | Callable[[Any, Any], Any] | None = None, include: Collection[str] | None = None,
    exclude: Collection[str] = (), title: str = "Comparison of networks", seed: int = 0,
    progress: Progress | bool | None = None,
) -> ModelComparison:  # fmt: skip
    """Measure two or more networks, or checkpoints of one, on the same data, side by side.

    Args:
        models: Name -> module in evaluation mode (or the result of `trace` or `load`).
        x, y, out, loss, include, exclude: As for `report`; the same for all.
        title: Heading of the page.
        seed: Of everything random: the same for all, so that planes and directions correspond.
        progress: As for `report`; counts the blocks of all networks.

    Cost: that of a `report` for each network; `print(found.summary())` is a table of the main numbers.

    Example:
        >>> import torch, splinescope as ss
        >>> nets = {str(w): torch.nn.Sequential(torch.nn.Linear(2, w), torch.nn.ReLU(), torch.nn.Linear(w, 2)).eval()
        ...         for w in (4, 32)}
        >>> found = ss.compare_models(nets, torch.randn(50, 2), include=["tiles"], progress=False)
        >>> counts = [found[name]["tiles"].numbers["tiles"] for name in ("4", "32")]
        >>> counts[0] < counts[1]
        True
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError("models must map names to at least two networks, e.g. {'plain': a, 'batch norm': b}.")
    if out is not None:
        check_page(out)
    keys = chosen_blocks(include, exclude)
    reports: dict[str, Report] = {}
    with telling(progress, "comparison") as tell:
        for i, (name, model) in enumerate(models.items()):

            def report_share(share: float, now: str, name: str = str(name), i: int = i) -> None:
                tell((i + share) / len(models), f"{name}: {now}")

            reports[str(name)] = report(model, x, y, loss=loss, include=keys, seed=seed, progress=report_share)
            if out is not None:
                _write(ModelComparison(reports, Path(out)), Path(out), title)
    return ModelComparison(reports, None if out is None else Path(out))


def _write(found: ModelComparison, out: Path, title: str) -> None:
    """The page and its numbers, as far as they have been measured."""
    points = next(iter(found.reports.values())).points
    subtitle = f"{len(found.reports)} networks on {points:,} data points. {CALLS}that of the column."
    write_page(out, side_by_side(title, found.reports, subtitle, found.rows()), found.records())

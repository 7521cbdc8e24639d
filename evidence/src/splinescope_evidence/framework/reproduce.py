"""Runs experiments and writes, for each, numbers (JSON), a figure (PNG), and one page over all of them.

Each result is written the moment it is there and by atomic replacement, so an interrupted run keeps what it had, and a
second one goes on from there; the page is rebuilt from the JSON files in the folder, so that runs add up.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from splinescope.support.checks import check_choice, check_whole
from splinescope.support.files import remove_unfinished, replacing
from splinescope.support.progress import Progress
from splinescope.support.worker_processes import share

from .experiment import Outcome, Size
from .pages import Record, in_order, outcome_of, page, read_known, read_record, read_records, without_numbers
from .parts import as_json, parts_in
from .registry import document_of, find, ids
from .source import source_of


def reproduce(
    experiment_ids: str | Iterable[str] | None = None,
    *,
    out: str | os.PathLike[str],
    size: Size = "full",
    seed: int = 0,
    jobs: int = 1,
    fresh: bool = False,
    known: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Outcome]:
    """Run experiments; write `ID.json`, `ID.png`, `index.html` and `records.json` into `out`.

    Args:
        experiment_ids: Which one, or which ones; all if None.
        out: Folder, created if needed. A result that is there already, made by the same source, at the same size and
            with the same seed, is kept: an interrupted run goes on with the experiment that it stopped in.
        size: "quick" (seconds each, a look at whether it works) or "full" (the verdicts).
        seed: Of every run; two seeds share no draws, so results of several are independent.
        jobs: Processes to share the experiments (by joblib, whose `parallel_config` may send them elsewhere).
        fresh: Run again what is there.
        known: File with records of earlier runs (`records.json` of a folder, docs/evidence.json). What the same source
            made there, at this size and with this seed, is not run again. Its records stand in `records.json`, where
            they are not there anew; it has no numbers, so no figure and no place on the page.
        progress: Called with (share done of an experiment, its id and what is being done); with several jobs, when one
            is done.

    Returns:
        The outcomes by id; of a result that was kept, as it was read; of a known one without numbers.

    Example:
        >>> found = reproduce("decomposed-fig1", out="reproduced", size="quick")  # doctest: +SKIP
        >>> found["decomposed-fig1"].numbers                                      # doctest: +SKIP
    """
    check_choice(size, "size", ("quick", "full"))
    check_whole(jobs, "jobs")
    asked = [experiment_ids] if isinstance(experiment_ids, str) else experiment_ids
    chosen = ids() if asked is None else list(asked)
    for name in chosen:
        find(name)  # an unknown one is refused before the first runs
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    before = [] if known is None else read_known(Path(known))
    kept = [] if fresh else [r for r in (*before, *read_records(folder)) if _is_this(r, size, seed)]
    outcomes = {record["id"]: outcome_of(record) for record in kept if record["id"] in chosen}
    due = [name for name in chosen if name not in outcomes]
    for name in outcomes:
        if progress is not None:
            progress(1.0, f"{name}: kept")
    for name in _run(due, folder, size, seed, jobs, progress):
        outcomes[name] = outcome_of(read_record(folder / f"{name}.json"))
        _rebuild(folder, before, size, seed)
    _rebuild(folder, before, size, seed)
    return {name: outcomes[name] for name in chosen}


def _run(due: list[str], folder: Path, size: Size, seed: int, jobs: int, progress: Progress | None) -> Iterable[str]:
    """Make results, one after the other or in processes; yields each id once its files are there."""
    if jobs == 1 or len(due) < 2:
        for name in due:
            _make(name, folder, size, seed, progress)
            yield name
        return
    items = [(name, folder, size, seed, None) for name in due]
    try:
        with closing(share(_make, items, due, workers=jobs)) as results:
            for _, name in results:
                if progress is not None:
                    progress(1.0, f"{name}: done")
                yield name
    except BaseException:  # Ctrl-C too: processes that were killed could not put their things away
        remove_unfinished(folder)
        raise


def _make(name: str, folder: Path, size: Size, seed: int, progress: Progress | None) -> str:
    """Run one experiment and write its numbers and its figure."""
    from matplotlib import pyplot  # this and torch take seconds to load, for which the completion of ids must not wait

    from splinescope.support.threads import one_torch_thread

    def report(fraction: float, what: str) -> None:
        if progress is not None:
            progress(fraction, f"{name}: {what}")

    experiment, source = find(name), source_of(name)  # as they are now: a run can take longer than an edit
    start, busy = time.perf_counter(), time.process_time()
    # One thread each: last bits do not depend on the machine's cores, and small networks run many times faster.
    with parts_in(folder / f"{name}-{size}-{seed}-{source}.parts") as parts:
        with one_torch_thread():
            outcome = experiment.measure(size=size, seed=seed, progress=report)
        record = {
            "id": name,
            "document": document_of(name),
            "title": experiment.title,
            "size": size,
            "seed": seed,
            "source": source,
            "seconds": round(time.perf_counter() - start, 2),
            "cpu_seconds": round(time.process_time() - busy + parts.seconds, 2),
            "claims": [asdict(claim) for claim in outcome.claims],
            "numbers": outcome.numbers,
        }
        figure = experiment.draw(outcome.numbers)
        with replacing(folder / f"{name}.png") as partial:
            figure.savefig(partial, dpi=150, bbox_inches="tight", format="png")
        pyplot.close(figure)
        _write(folder / f"{name}.json", as_json(record, indent=1))
    report(1.0, "done")
    return name


def _is_this(record: Record, size: Size, seed: int) -> bool:
    """Whether the present source made this result, at this size and with this seed."""
    name = record["id"]
    made = (record.get("source"), record["size"], record["seed"])
    return name in ids() and made == (source_of(name), size, seed)


def _rebuild(folder: Path, before: list[Record], size: Size, seed: int) -> None:
    """Of a known result and the folder's, the records have the one that was asked for: the folder's if both were."""
    own = read_records(folder)
    asked = [r for r in (*before, *own) if _is_this(r, size, seed)]
    records = in_order({r["id"]: r for r in (*own, *before, *asked)}.values())
    _write(folder / "index.html", page(own))
    _write(folder / "records.json", json.dumps([without_numbers(r) for r in records], indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")

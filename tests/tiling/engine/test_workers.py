"""A tiling by several processes is that of one: the split leaves no trace."""

import contextlib
import os
import re
import resource
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from joblib._parallel_backends import ThreadingBackend
from torch import nn

import splinescope as ss
from splinescope.support import worker_processes
from splinescope.tiling.engine import parts, splits
from tests import cases
from tests.tiling.engine import dying

SQUARE = ss.Slice.axes([0.0, 0.0], (0, 1), -3.0, 3.0)


@pytest.fixture(scope="module")
def network() -> ss.SplineNetwork:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 2))
    return ss.trace(model, torch.zeros(2, 2))


def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same parts and the same joining, without the price of processes."""
    require = worker_processes.require
    monkeypatch.setattr(
        worker_processes, "require", lambda name, extra: _Sequential if name == "joblib" else require(name, extra)
    )


class _Sequential:
    delayed, parallel = staticmethod(joblib.delayed), joblib.parallel

    @staticmethod
    def Parallel(n_jobs: int, return_as: str):
        return joblib.Parallel(n_jobs=1, return_as="generator")


def assert_same_tiling(one: ss.Tiling, other: ss.Tiling) -> None:
    """Equal counts; tiles of equal size about equal centers; walls of equal units."""
    assert other.check().ok, str(other.check())
    assert (one.count, len(one.vertices), len(one.walls)) == (other.count, len(other.vertices), len(other.walls))
    size = np.ptp(one.view.domain, axis=0).max()

    def order(points: np.ndarray) -> np.ndarray:
        return np.lexsort(np.round(points / size, 9).T)

    a, b = order(one.vertices), order(other.vertices)
    np.testing.assert_allclose(one.vertices[a], other.vertices[b], rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(one.values[a], other.values[b], rtol=0, atol=1e-11 * np.abs(one.values).max())
    np.testing.assert_allclose(np.sort(one.areas), np.sort(other.areas), rtol=0, atol=1e-12 * one.view.size)
    np.testing.assert_array_equal(np.sort(one.walls.cuts), np.sort(other.walls.cuts))
    np.testing.assert_array_equal(np.bincount(np.diff(one.tiles.offsets)), np.bincount(np.diff(other.tiles.offsets)))


@pytest.mark.parametrize(
    "name", ["two layers", "line", "max-pool", "zero bias", "duplicate units", "corner on a fold", "residual"]
)
def test_parts_join_to_the_tiling_of_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)
    for rows in ("plain", "factored"):
        parted = ss.tessellate(cases.model(name), cases.view(name), workers=2, rows=rows)
        assert_same_tiling(cases.tiling(name), parted)


def test_parts_of_solids_join_too(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 2))
    view = ss.Slice.axes(np.zeros(3), (0, 1, 2), -1.0, 1.0)
    assert_same_tiling(ss.tessellate(model, view), ss.tessellate(model, view, workers=1))


def test_parts_join_within_a_tolerance_too(monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)  # which packs and unpacks the module all the same
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 1))
    one = ss.tessellate(model, SQUARE, tolerance=0.1)
    parted = ss.tessellate(model, SQUARE, tolerance=0.1, workers=2)
    assert_same_tiling(one, parted)
    assert parted.approximation.bound == one.approximation.bound <= 0.1


def test_every_part_is_needed_and_they_cover_the_domain() -> None:
    domain = np.array([[0.0, 0.0], [4.0, -1.0], [5.0, 2.0], [1.0, 3.0]])
    parts = splits.split(domain, 5, -9)

    def area(p: np.ndarray) -> float:
        x, y = p.T
        return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))

    sizes = [area(part.corners) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > 0
    assert sum(sizes) == pytest.approx(area(domain), rel=1e-14)
    sides = [
        (tuple(a), tuple(b))
        for part in parts
        for a, b, label in zip(part.corners, np.roll(part.corners, -1, 0), part.labels, strict=True)
        if label == -9
    ]
    assert sides
    assert {(b, a) for a, b in sides} == set(sides), "what one part has as a side of a seam, another has the other way"


def test_processes_give_the_tiling_of_one_and_a_second_run_resumes(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ss.tessellate(network, SQUARE, threads=1)
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=2, folder=tmp_path))
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 9
    files[3].unlink()
    calls = []
    tile_part = parts._tile_part
    monkeypatch.setattr(parts, "_tile_part", lambda *a: calls.append(1) or tile_part(*a))
    in_this_process(monkeypatch)
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=2, folder=tmp_path))
    assert len(calls) == 1


def test_a_folder_with_parts_of_other_weights_gives_the_tiling_of_these(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    for seed in (0, 1):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 1))
        parted = ss.tessellate(model, SQUARE, workers=1, folder=tmp_path)
        assert_same_tiling(ss.tessellate(model, SQUARE), parted)


def test_another_number_of_workers_goes_on_with_the_parts_that_are_there(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        ss.tessellate(network, SQUARE, workers=2, folder=tmp_path, progress=stop)
    told: list[str] = []
    for workers in (3, 1):
        parted = ss.tessellate(
            network, SQUARE, workers=workers, folder=tmp_path, progress=lambda _, now: told.append(now)
        )
    assert [now.partition(",")[0] for now in told[:9]] == [f"{i + 1} of 9 parts" for i in range(9)]
    assert len(list(tmp_path.glob("*.safetensors"))) == 9, "none is made for another split"
    assert_same_tiling(ss.tessellate(network, SQUARE), parted)


def test_threads_are_those_of_each_process(network: ss.SplineNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    in_this_process(monkeypatch)
    seen: list[int] = []
    run = parts.Work.run
    monkeypatch.setattr(parts.Work, "run", lambda work, threads: seen.append(threads) or run(work, threads))
    one = ss.tessellate(network, SQUARE, workers=1)
    assert set(seen) == {1}
    seen.clear()
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=1, threads=2))
    assert set(seen) == {2}


def test_parts_that_are_not_done_are_named_by_number_and_place(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)

    def dies(*item):
        raise BrokenProcessPool

    monkeypatch.setattr(parts, "_tile_part", dies)
    with pytest.raises(ss.SplinescopeError) as died:
        ss.tessellate(network, SQUARE, workers=1)
    assert re.search(
        r"not done: part 1 of 4 \(in slice coordinates \(-3, .*\) to \(.*\)\), part 2 of 4", str(died.value)
    )
    assert not re.search("[0-9a-f]{12}", str(died.value))


def test_a_folder_that_is_none_is_refused_by_its_name(network: ss.SplineNetwork, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder, words in (
        (file, "folder must be .*: a file of that name is there"),
        (file / "below", "folder must be a folder that exists or can be made, got .*: Not a directory"),
        (123, r"folder must be the name of a folder \(.*\), got int"),
        ("", r"folder must be the name of a folder \(.*\), got ''"),
    ):
        with pytest.raises(ss.InputError, match=words):
            ss.tessellate(network, SQUARE, workers=2, folder=folder)


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work_unless_all_is_there(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # to root every folder is open
    with monkeypatch.context() as vain:
        vain.setattr(parts, "_tile_part", lambda *item: pytest.fail("worked in vain"))
        with pytest.raises(ss.InputError, match="folder must be one that can be written"):
            ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)
    with monkeypatch.context() as opened:
        opened.setattr(os, "access", lambda path, mode: True)
        made = ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)
    assert_same_tiling(made, ss.tessellate(network, SQUARE, workers=2, folder=tmp_path))


def test_files_under_the_names_of_other_work_are_refused(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)
    one, other, *_ = sorted(tmp_path.glob("*.safetensors"))
    other.write_bytes(one.read_bytes())
    with pytest.raises(ss.SplinescopeError, match="holds other work than its name says"):
        ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)
    ss.tessellate(network, SQUARE).save(other)
    with pytest.raises(ss.SplinescopeError, match=r"is not a result: .*Remove it, and it is made again"):
        ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)


def test_what_cannot_be_sent_to_a_worker_is_refused_in_words() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    model.lock = threading.Lock()
    with pytest.raises(ss.InputError, match=r"workers= needs a model.*cannot pickle '_thread.lock' object"):
        ss.tessellate(model, SQUARE, workers=2)


def test_no_process_is_started_that_gets_nothing_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").touch()
    asked, parallel = [], joblib.Parallel
    monkeypatch.setattr(joblib, "Parallel", lambda n_jobs, **how: asked.append(n_jobs) or parallel(n_jobs=1, **how))
    assert (
        len(list(worker_processes.share(dying.once, [(0, str(tmp_path / "there"))] * 3, ["a", "b", "c"], workers=30)))
        == 3
    )
    assert asked == [3]


def test_work_that_is_given_up_is_cancelled_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does loky's thread end with an error if a call that it was just given is taken back at once."""
    from joblib.externals.loky.process_executor import _ExecutorManagerThread as Manager

    take, died = Manager.process_result_item, []

    def take_slowly(self: Any, item: Any) -> None:
        take(self, item)
        time.sleep(0.03)  # as on a busy machine: the next call is given by now, and not passed on yet

    monkeypatch.setattr(Manager, "process_result_item", take_slowly)
    monkeypatch.setattr(threading, "excepthook", lambda ended: died.append(ended.exc_value))
    mark = str(tmp_path / "there")
    Path(mark).touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = worker_processes.share(
            dying.once, [(i, mark) for i in range(40)], [str(i) for i in range(40)], workers=2
        )
        next(results)
        results.close()
    assert not died
    again = worker_processes.share(dying.once, [(i, mark) for i in range(2)], ["0", "1"], workers=2)
    assert sorted(i for i, _ in again) == [0, 1], "the pool works on"


def test_work_whose_worker_dies_is_tried_twice_more_then_named(tmp_path: Path) -> None:
    """One death may be that of a worker between two calls, which nobody saw in time."""
    mark = f"{tmp_path / 'died'}{os.pathsep}{tmp_path / 'again'}"
    results = worker_processes.share(dying.once, [(i, mark) for i in range(3)], ["a", "b", "c"], workers=2)
    assert sorted((i, int(result["number"][0])) for i, result in results) == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(ss.SplinescopeError, match=r"died three times; not done: .*b"):
        list(worker_processes.share(dying.once, [(i, "") for i in range(2)], ["a", "b"], workers=2))


@pytest.mark.skipif(sys.platform == "win32", reason="messages are whole there")
def test_a_worker_killed_in_the_middle_of_its_result_is_tried_again_then_named(tmp_path: Path) -> None:
    mark = str(tmp_path / "sending")
    results = worker_processes.share(dying.while_sending, [(i, mark) for i in range(3)], ["a", "b", "c"], workers=2)
    assert sorted((i, int(result["number"][-1])) for i, result in results) == [(0, 0), (1, 1), (2, 2)]
    with pytest.raises(ss.SplinescopeError, match=r"died three times; not done: .*b"):
        list(worker_processes.share(dying.while_sending, [(i, "") for i in range(2)], ["a", "b"], workers=2))


def stop(share: float, now: str) -> None:
    raise KeyboardInterrupt


def test_what_is_finished_survives_ctrl_c_a_full_disk_and_a_damaged_file_is_named(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    one = ss.tessellate(network, SQUARE, threads=1)
    with pytest.raises(KeyboardInterrupt):
        ss.tessellate(network, SQUARE, workers=2, folder=tmp_path, progress=stop)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))
    try:
        with pytest.raises(
            ss.SplinescopeError, match=r"cannot take part 2 of 9 .*large\. What was .* goes on from there"
        ):
            ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(list(tmp_path.iterdir())) == 1, "nothing half-written"
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=2, folder=tmp_path))
    file = min(tmp_path.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ss.SplinescopeError, match="is damaged"):
        ss.tessellate(network, SQUARE, workers=2, folder=tmp_path)


def test_a_limit_stops_all_parts_and_gives_what_they_found(
    network: ss.SplineNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_this_process(monkeypatch)
    one = ss.tessellate(network, SQUARE)
    with pytest.raises(ss.LimitReached, match="max_tiles=") as reached:
        ss.tessellate(network, SQUARE, workers=2, max_tiles=one.count // 2, folder=tmp_path)
    partial = reached.value.partial
    assert not partial.complete
    assert 0 < partial.count < one.count
    assert partial.walls.cuts.max() < sum(site.cuts for site in network.sites)
    with pytest.raises(ss.LimitReached, match="time_limit"):
        ss.tessellate(network, SQUARE, workers=2, time_limit=1e-9, folder=tmp_path)  # parts that were not finished
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=2, max_tiles=one.count, time_limit=600.0))
    assert_same_tiling(one, ss.tessellate(network, SQUARE, workers=2, folder=tmp_path))


@contextlib.contextmanager
def dask_client(**kind: Any) -> Iterator[Any]:
    """A client of a dask cluster of its own, in whose scheduler one death of a task's worker is enough."""
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    patient = {"distributed.comm.timeouts.connect": "240s"}  # with a busy machine
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0, **patient}),
        distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0", **kind) as cluster,
        distributed.Client(cluster) as client,
        joblib.parallel_config(backend="dask"),
    ):
        yield client


def test_processes_of_a_dask_cluster_give_the_same_tiling_and_lose_nothing_else_when_one_dies(
    network: ss.SplineNetwork, tmp_path: Path
) -> None:
    """A worker that dies is tried once more, then named."""
    parts._READ.clear()
    mark, common, names = str(tmp_path / "died"), np.arange(1000), list("abcdef")
    with dask_client(n_workers=2, processes=True) as client:
        parted = ss.tessellate(network, SQUARE, workers=2)
        read = client.run(lambda: len(getattr(sys.modules.get("splinescope.tiling.engine.parts"), "_READ", ())))
        again = worker_processes.share(dying.once, [(i, mark, common) for i in range(6)], names, workers=2)
        assert sorted((i, int(result["number"][0])) for i, result in again) == [(i, i) for i in range(6)]
        with pytest.raises(ss.SplinescopeError, match=r"died three times; not done: b\.") as died:
            list(worker_processes.share(dying.once, [(i, "") for i in range(6)], names, workers=2, folder=tmp_path))
    assert "the same call goes on from there" in str(died.value)
    assert sorted(file.stem for file in tmp_path.glob("*.safetensors")) == list("acdef")
    assert max(read.values()) == 1, "a process of the cluster has read the network"
    assert not parts._READ, "this one has not"
    assert_same_tiling(ss.tessellate(network, SQUARE), parted)


def test_what_work_raises_on_dask_is_raised_here() -> None:
    with dask_client(n_workers=1, processes=False), pytest.raises(ZeroDivisionError):
        list(worker_processes.share(divmod, [(1, 1), (1, 0)], ["a", "b"], workers=2))


def test_a_backend_that_gives_all_results_at_the_end_will_do(network: ss.SplineNetwork) -> None:
    class AtTheEnd(ThreadingBackend):  # as ray's
        supports_return_generator = False

    joblib.register_parallel_backend("at the end", AtTheEnd)
    with joblib.parallel_config(backend="at the end"):
        parted = ss.tessellate(network, SQUARE, workers=1)
    assert_same_tiling(ss.tessellate(network, SQUARE), parted)


def test_what_workers_cannot_do_is_refused(network: ss.SplineNetwork) -> None:
    with pytest.raises(ss.InputError, match="needs workers"):
        ss.tessellate(network, SQUARE, folder="parts")
    with pytest.raises(ss.InputError, match="workers"):
        ss.tessellate(network, SQUARE, workers=0)

"""Long work says how far it is, unless told not to; short work says nothing."""

import contextlib
import inspect
import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.support import compile, progress
from splinescope.support.progress import sharing, stepping, telling

from .test_door import PARTS, public


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.delenv("SPLINESCOPE_PROGRESS", raising=False)
    return now


def work(clock, seconds, progress=None):
    """Ten steps that take `seconds` together."""
    with telling(progress, "tiling") as tell:
        for step in range(1, 11):
            clock[0] += seconds / 10
            tell(step / 10, f"{100 * step} tiles")


def test_short_work_says_nothing_and_long_work_in_a_script_a_line_now_and_then(clock, capsys):
    work(clock, 2.9)
    assert capsys.readouterr() == ("", "")
    work(clock, 40.0)
    output, lines = capsys.readouterr()
    assert output == ""
    assert lines.splitlines() == ["tiling: 10%, 100 tiles", "tiling: 50%, 500 tiles", "tiling: 90%, 900 tiles"]


@pytest.mark.parametrize(("progress", "environment"), [(False, ""), (None, "0"), (True, "0")])
def test_it_can_be_silenced(clock, capsys, monkeypatch, progress, environment):
    monkeypatch.setenv("SPLINESCOPE_PROGRESS", environment)
    work(clock, 40.0, progress=progress)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("environment", ["", "0"])
def test_a_wait_for_kernels_is_told_once_and_then_how_far_it_is_unless_silenced(capsys, monkeypatch, environment):
    now = [0.0]
    monkeypatch.setenv("SPLINESCOPE_PROGRESS", environment)
    monkeypatch.setattr(compile, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    told = compile._Notice()
    for name, seconds in (("split", 4.0), ("carry", 2.0), ("mark", 1.0)):
        told.begin(name)
        now[0] += seconds
    output, lines = capsys.readouterr()
    assert output == ""
    first = (
        "splinescope: compiling kernels, once on this machine (`splinescope warmup` does it ahead): 0 begun, now split"
    )
    later = "splinescope: compiling kernels: 2 begun, now mark"
    assert lines.splitlines() == ([] if environment else [first, later])


def test_a_kernel_that_is_new_to_the_machine_is_told_by_name(monkeypatch, tmp_path):
    begun = []
    monkeypatch.setattr(compile.notice, "begin", begun.append)
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))

    @compile.jit
    def twice(a):
        return 2 * a

    assert twice(2) == 4
    assert begun == ["twice"]


def test_a_kernel_is_compiled_once_for_arrays_that_may_be_written_to_and_those_that_may_not():
    @compile.in_place
    def first(a, b):
        return a[0] + b[0]

    frozen, free = np.ones(2), np.ones(2)
    frozen.flags.writeable = False
    for a, b in ((frozen, free), (free, frozen), (free, free), (frozen, frozen)):
        assert first(a, b) == 2
    assert len(first.signatures) == 1


def test_a_notebook_has_one_line_that_is_rewritten_and_then_goes(clock, capsys, monkeypatch):
    shown = []

    class Line:
        def update(self, content, raw):
            shown.append(content["text/plain"])

    def display(content, raw, display_id):
        assert raw
        assert display_id
        shown.append(content["text/plain"])
        return Line()

    ipython = types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=True), display=types.SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    work(clock, 10.0)
    assert shown == [f"tiling: {10 * i}%, {100 * i} tiles" for i in range(3, 11)] + [""]
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar_that_goes_away(clock, monkeypatch):
    made = []

    class Bar:
        task_ids = (0,)

        def __getattr__(self, name):
            return lambda *arguments, **fields: made.append((name, fields.get("completed")))

    monkeypatch.setattr(progress, "_place", lambda: "terminal")
    monkeypatch.setattr(progress, "_bar", lambda transient: made.append(("bar", transient)) or Bar())
    work(clock, 6.0)
    assert made[:3] == [("bar", True), ("start", None), ("add_task", None)]
    assert made[3:] == [*(("update", i / 10) for i in range(5, 11)), ("stop", None)]


def test_the_callers_own_function_is_called_as_it_is(clock, capsys):
    seen = []
    with sharing(lambda *said: seen.append(said), "work") as share:
        share(0.5)
    with telling(lambda *said: seen.append(said), "work") as tell:
        tell(1.0, "seed 3")
    assert seen == [(0.5, "work"), (1.0, "seed 3")]
    assert capsys.readouterr() == ("", "")


def test_long_calls_tell_the_caller_how_far_they_are():
    """The share done rises from 0, part by part; what is not a function or a choice is refused before the work."""
    x = torch.randn(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -4, 4)
    net = nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).double()
    net.eval()
    plain = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    sampler = ss.PolaritySampler(net, ss.generative.Box(2), pool=32, progress=False)
    matrix = ss.curvature(net, x, torch.zeros(30, 2))

    def timeline(progress):
        twin = nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2)).double()
        states = {step: twin.state_dict() for step in (0, 1)}
        ss.complexity.timeline(twin, states, view, x={"train": x}, radius=0.1, progress=progress)

    calls = {
        "timeline": timeline,
        "complexity": lambda p: ss.local_complexity(net, x, radius=0.1, chunk_bytes=64, progress=p),
        "distances": lambda p: ss.local_complexity(net, x, radius=0.1, method="distance", chunk_bytes=64, progress=p),
        "attacks": lambda p: ss.complexity.robustness(
            net, x, net(x).argmax(1), epsilons=0.1, steps=1, queries=1, progress=p
        ),
        "volumes": lambda p: ss.log_volume(net, x, batch_size=8, progress=p),
        "walks": lambda p: sampler.sample(3, rho=0.5, method="metropolis", steps=4, progress=p),
        "factor": lambda p: ss.landscape.spectrum_summary(matrix, progress=p),
        "spectrum": lambda p: ss.landscape.spectrum_summary(matrix, method="matrix-free", probes=2, progress=p),
        "validity": lambda p: ss.smooth.local_map(plain, x[:1]).validity([0.1], directions=1, progress=p),
        "census": lambda p: ss.space.fold_census(plain, x, radius=1.0, lines=50, progress=p),
    }
    for name, call in calls.items():
        shares = []
        call(lambda share, *_, seen=shares: seen.append(share))
        assert shares[0] == 0, name
        assert shares == sorted(shares), name
        assert len(shares) > 1 or name == "factor", name
        assert shares[-1] < 1, name
        with pytest.raises(ss.InputError, match="progress must be"):
            call("yes")


MADE = "makes an object and measures nothing yet"
CHANGED = "changes or copies the module, at most one pass over its weights"
PASS = "one pass over the data that the caller gives"
WITHOUT_PROGRESS = {
    "complexity.ComplexityMonitor": MADE,
    "landscape.CurvatureMonitor": MADE,
    "landscape.curvature": "matrix-free: products are made later, by calls that tell",
    "landscape.random_directions": CHANGED,
    "landscape.without_skips": CHANGED,
    "network.SplineNetwork": MADE,
    "network.freeze_statistics": PASS,
    "network.pick_output": MADE,
    "network.trace": "torch's export, which tells nothing of how far it is",
    "normalization.initialize_": PASS,
    "normalization.merge_batchnorm": CHANGED,
    "normalization.normalization_report": PASS,
    "normalization.with_statistics": CHANGED,
    "representation.representation_geometry": PASS,
    "smooth.block": CHANGED,
    "smooth.harden": CHANGED,
    "smooth.local_map": "three passes of one point",
    "smooth.soften": CHANGED,
    "smooth.token_geometry": PASS,
    "tiling.load_tiling": "reads a file",
    "train.TrainingMonitor": MADE,
}
"""Public callables that take a model and tell nothing, and why."""


def test_every_call_on_a_model_tells_how_far_it_is_or_says_why_not():
    silent = set()
    for part in set(PARTS) - {"cli"}:
        for name in public(part).__all__:
            thing = getattr(public(part), name)
            if callable(thing) and not isinstance(thing, types.GenericAlias):
                with contextlib.suppress(ValueError):  # type aliases and the like have no signature
                    taken = inspect.signature(thing).parameters
                    if "model" in taken and "progress" not in taken:
                        silent.add(f"{part}.{name}")
    assert silent == set(WITHOUT_PROGRESS)


def test_inside_a_call_that_tells_others_are_silent(clock, capsys):
    with telling(None, "outer"):
        work(clock, 40.0)
    assert capsys.readouterr() == ("", "")
    with telling(False, "outer"):
        list(stepping(range(5), None, "inner"))
    work(clock, 40.0)
    assert capsys.readouterr().err.startswith("tiling: 10%")

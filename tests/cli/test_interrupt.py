"""Ctrl-C ends a tiling with one line and exit code 130, and leaves no thread behind."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn

import splinescope as ss
from splinescope.tiling.engine import schedule

NETWORK = """
def build():
    import torch
    from torch import nn

    torch.manual_seed(0)
    widths = [2, 500, 500, 500, 1]
    layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_while_threads_cut_tiles_exits_with_130_and_one_line(tmp_path):
    (tmp_path / "bignet.py").write_text(NETWORK)
    ours, theirs = pty.openpty()
    arguments = ["bignet:build", "--slice", "axes", "--shape", "2", "--low", "-30", "--high", "30", "--threads", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "splinescope", "tessellate", *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "SPLINESCOPE_PROGRESS": "1"},
    )  # fmt: skip
    os.close(theirs)
    shown, sent, started = b"", False, time.monotonic()
    try:
        while process.poll() is None:
            assert time.monotonic() - started < 240, shown.decode()  # kernels may have to be compiled first
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # the other end is closed
                    break
            if not sent and re.search(rb"[1-9]\d* tiles", shown):  # the bar has seen tiles: threads are at work
                process.send_signal(signal.SIGINT)
                sent = True
        code = process.wait(240)
    finally:
        process.kill()
        output = process.communicate()[0]
        os.close(ours)
    text = shown.decode()
    assert sent, text
    assert code == 130, text
    assert output == b""
    assert text.rstrip().endswith("Interrupted."), text
    for trace in ("Traceback", "terminate called", "Aborted"):
        assert trace not in text


def test_an_interrupted_tiling_leaves_no_thread_at_work(monkeypatch):
    """Python's own `Thread.join`, interrupted, takes a running thread for finished: at exit torch then aborts."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 1))
    network = ss.trace(net, torch.zeros(2, 2))
    at_work = []
    helping = schedule.Work._help

    def slow(self, threads):
        at_work.append(threading.current_thread())
        time.sleep(0.2)  # still at it when the interrupt comes
        helping(self, threads)
        at_work.remove(threading.current_thread())

    def interrupted(helpers, timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(schedule.Work, "_help", slow)
    monkeypatch.setattr(schedule, "wait", interrupted)
    before = threading.enumerate()
    with pytest.raises(KeyboardInterrupt):
        ss.tessellate(network, ss.Slice.axes([0.0, 0.0], (0, 1), -9, 9), threads=2, chunk_bytes=1 << 16)
    assert at_work == []
    assert set(threading.enumerate()) <= set(before)  # of earlier tests some may end meanwhile


STRUCK = """
import atexit, builtins, importlib.util, signal, sys, types
import click
from splinescope.__main__ import run


def strike(*_, **__):
    signal.raise_signal(signal.SIGINT)
    for _ in range(9):  # Python answers between two steps of its own code
        pass


class Lost:
    def __del__(self):
        strike()


def verb():
    if when == "in a destructor":
        Lost()
    if when == "at exit":
        atexit.register(strike)
    if when == "in the verb":
        strike()
    click.echo("done")


when = sys.argv.pop(1)
sys.modules["struck"] = types.SimpleNamespace(verb_command=click.command("verb")(verb))
if when == "while it is loaded":
    class Finder:
        find_spec = strike
    sys.modules.pop("splinescope.cli", None)
    sys.meta_path.insert(0, Finder)
else:
    from splinescope.cli import _main
    _main.VERBS["verb"] = "struck"
    if when == "while it reads its arguments":
        _main._LazyGroup.parse_args = strike
    if when == "between the verb and the end":
        click.Context.exit = strike
    if when == "when all is taken down":
        builtins.kept = Lost()  # goes with the last of all modules
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize(
    "when",
    [
        "while it is loaded",
        "while it reads its arguments",
        "in the verb",
        "in a destructor",
        "between the verb and the end",
        "at exit",
        "when all is taken down",
    ],
)
def test_whenever_ctrl_c_comes_there_is_one_line(when):
    ran = subprocess.run([sys.executable, "-c", STRUCK, when, "verb"], capture_output=True, text=True)
    if when == "when all is taken down":  # the verb has done its work
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")
    else:
        assert (ran.returncode, ran.stderr) == (130, "Interrupted.\n")

"""One studio and one browser for all tests of this folder."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from websockets.sync.client import connect

import splinescope as ss
from tests.browser import PATIENCE, open_browser, opened

DRAWN = "() => { const g = studio.pages.playground; return g.drawn > 0 && g.frame?.tag === g.tag }"
"""JavaScript: whether the playground shows the network that it was asked for."""


class Server:
    """`splinescope studio` as a process of its own."""

    def __init__(self, *arguments, folder=None):
        command = [sys.executable, "-u", "-m", "splinescope", "studio", "--no-browser", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=os.environ
        )
        first = self.process.stdout.readline()
        assert "http://" in first, first + self.process.stdout.read()
        self.address = re.search(r"http://[^\s#]+", first)[0]
        self._said = []
        self._reader = threading.Thread(target=lambda: self._said.extend(self.process.stdout), daemon=True)
        self._reader.start()  # a pipe that nobody reads stops who writes to it
        self.port = int(re.search(r":(\d+)/", self.address)[1])
        self.token = re.search(r"token=([\w-]+)", self.address)[1]
        self.origin = f"http://127.0.0.1:{self.port}"

    def interrupt(self):
        """Ctrl-C; gives the exit code. What it said after its address is in `rest`."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)
        self.close()
        return self.process.returncode

    def close(self):
        """Kill it, if it still runs."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.rest = "".join(self._said)

    def line(self):
        """A WebSocket to the server."""
        address = f"ws://127.0.0.1:{self.port}/channel?token={self.token}"
        return connect(address, max_size=None, open_timeout=PATIENCE, ping_interval=None)

    def ask(self, line, **message):
        """The answer to one request over a WebSocket; progress is passed over."""
        line.send(json.dumps(message))
        while True:
            got = line.recv(PATIENCE)
            if isinstance(got, str):
                answer = json.loads(got)
                if answer.get("id") == message.get("id") and "progress" not in answer:
                    return answer


FACTORY = """
from torch import nn


def small():
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
    net.input_shape = (2,)
    return net
"""


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder for the microscope: networks, a tiling, checkpoints, a damaged file, a hostile name, a way out."""
    folder = tmp_path_factory.mktemp("studio") / "shelf"
    folder.mkdir()
    (folder.parent / "secret.onnx").write_bytes(b"not to be read")
    (folder / "out.onnx").symlink_to(folder.parent / "secret.onnx")
    (folder / "lens_models.py").write_text(FACTORY)
    (folder / "broken.onnx").write_bytes(b"\0broken")
    write_onnx(folder / "first.onnx", (2, 16, 16, 3), seed=0)
    write_onnx(folder / "second.onnx", (2, 16, 16, 3), seed=1)
    write_onnx(folder / "solid.onnx", (3, 8, 6, 2), seed=0)
    write_onnx(folder / "images.onnx", (16, 6, 2), seed=0)
    write_onnx(folder / "nine.onnx", (9, 6, 2), seed=0)
    write_onnx(folder / "large.onnx", (16, 320, 320, 320, 2), seed=0)
    tiling = ss.tessellate(ss.load(folder / "first.onnx"), ss.Slice.axes([0.0, 0.0], (0, 1), -1, 1))
    tiling.save(folder / "<img src=x onerror=alert(1)>.tiling")
    (folder / "run").mkdir()
    for step in (0, 10, 20):
        torch.manual_seed(step)
        net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
        save_file(net.state_dict(), folder / "run" / f"step-{step}.safetensors")
    points = np.random.default_rng(0).normal(size=(12, 2))
    np.save(folder / "points.npy", points)
    np.save(folder / "points.labels.npy", (points[:, 0] > 0).astype(np.int64))
    (folder / "hand.nnet").write_text("2,2,1,2,\n2,1,1,\n0,\n-3,-3,\n3,3,\n0,0,0,\n1,1,1,\n2,-1,\n1,\n1,\n0,\n")
    ranges = "2,3,1,2,\n3,2,1,\n0,\n0,-3,0,\n1000,3,4,\n500,0,2,0,\n1000,6,4,1,\n"
    (folder / "ranges.nnet").write_text(ranges + "8,1,2,\n-8,2,-1,\n0.1,\n-0.1,\n1,-1,\n0,\n")
    view = ss.Slice.axes([0.0, 0.0], (0, 1), -2, 2)
    ss.complexity.timeline(net, folder / "run", view, x={"train": points.astype(np.float32)}, radius=0.1).save(
        folder / "life.timeline"
    )
    return folder


def write_onnx(path, sizes, seed):
    """A ReLU network as an ONNX file."""
    random = np.random.default_rng(seed)
    nodes, weights, name = [], [], "x"
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        for key, array in (("w", random.normal(size=(a, b)) / np.sqrt(a)), ("b", 0.3 * random.normal(size=b))):
            weights.append(onnx.numpy_helper.from_array(array.astype(np.float32), f"{key}{i}"))
        nodes.append(onnx.helper.make_node("Gemm", [name, f"w{i}", f"b{i}"], [f"z{i}"]))
        name = f"z{i}"
        if i < len(sizes) - 2:
            nodes.append(onnx.helper.make_node("Relu", [name], [f"a{i}"]))
            name = f"a{i}"
    value = onnx.helper.make_tensor_value_info
    ends = [value("x", 1, ["n", sizes[0]])], [value(name, 1, ["n", sizes[-1]])]
    graph = onnx.helper.make_graph(nodes, "net", *ends, weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)


@pytest.fixture(scope="session")
def server(shelf):
    running = Server(shelf, "--factory", "lens_models:small", folder=shelf)
    with running.line() as line:  # kernels may have to be compiled first: no page should wait for that
        line.send(json.dumps({"do": "playground", "order": "make", "recipe": {"width": 4, "depth": 1}}))
        assert isinstance(line.recv(240), bytes)
    yield running
    ended = running.process.poll()
    running.interrupt() if ended is None else running.close()
    assert ended is None, running.rest  # nothing took it down


@pytest.fixture(scope="package")
def browser():
    with open_browser() as made:
        yield made


@pytest.fixture
def studio(server, browser):
    """`studio("#...")` opens the page, waits until it is ready, and checks that it saw no error."""

    def opened_studio(state="", **options):
        return Opened(browser, server, state, options)

    return opened_studio


class Opened:
    def __init__(self, browser, server, state, options):
        allow = (server.origin, server.origin.replace("http", "ws"))
        address = server.address.replace("/?", f"/?{options.pop('query', '')}") + state
        self.inner = opened(browser, address, allow=allow, **options)

    def __enter__(self):
        page = self.inner.__enter__()
        page.wait_for_selector("body[data-ready]")
        return page

    def __exit__(self, *what):
        return self.inner.__exit__(*what)

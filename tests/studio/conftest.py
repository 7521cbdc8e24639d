"""One studio and one browser for all tests of this folder."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
from websockets.sync.client import connect

from tests.browser import open_browser, opened


class Server:
    """`splinescope studio` as a process of its own."""

    def __init__(self, *arguments, folder=None):
        command = [sys.executable, "-u", "-m", "splinescope", "studio", "--no-browser", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=os.environ
        )
        self.address = re.search(r"http://\S+", self.process.stdout.readline())[0]
        self.port = int(re.search(r":(\d+)/", self.address)[1])
        self.token = re.search(r"token=([\w-]+)", self.address)[1]
        self.origin = f"http://127.0.0.1:{self.port}"

    def interrupt(self):
        """Ctrl-C; gives the exit code. What it said last is in `rest`."""
        self.process.send_signal(signal.SIGINT)
        self.rest, _ = self.process.communicate(timeout=20)
        return self.process.returncode

    def line(self):
        """A WebSocket to the server."""
        return connect(f"ws://127.0.0.1:{self.port}/channel?token={self.token}", max_size=None)

    def ask(self, line, **message):
        """The answer to one request over a WebSocket; progress is passed over."""
        line.send(json.dumps(message))
        while True:
            got = line.recv(30)
            if isinstance(got, str):
                answer = json.loads(got)
                if answer.get("id") == message.get("id") and "progress" not in answer:
                    return answer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server()
    yield running
    assert running.process.poll() is None, running.process.stdout.read()  # nothing took it down
    running.interrupt()


@pytest.fixture(scope="module")
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
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        return page

    def __exit__(self, *what):
        return self.inner.__exit__(*what)

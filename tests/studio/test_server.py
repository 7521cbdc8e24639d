"""The server refuses strangers, survives what is thrown at it, and ends when told."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import re
import resource
import socket
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

import httpx
import pytest
import uvicorn
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import splinescope.studio.server as server_module
from splinescope.studio import connection
from tests.browser import PATIENCE, expect, opened
from tests.studio.conftest import DRAWN, Server

TILES = "studio.pages.playground.frame.measures.tiles"


def get(server, path, **headers):
    return httpx.get(f"{server.origin}{path}", headers=headers, timeout=PATIENCE)


def test_a_wrong_token_host_or_origin_gets_403(server):
    good = f"/?token={server.token}"
    assert get(server, good).status_code == 200
    assert get(server, "/", Authorization=f"Bearer {server.token}").status_code == 200
    assert get(server, "/").status_code == 403
    assert get(server, "/?token=wrong").status_code == 403
    assert get(server, good, Host="evil.example").status_code == 403
    assert get(server, good, Host=f"evil.example:{server.port}").status_code == 403
    assert get(server, good, Origin="http://evil.example").status_code == 403
    channel = f"ws://127.0.0.1:{server.port}/channel"
    for address, origin in ((channel, None), (f"{channel}?token={server.token}", "http://evil.example")):
        with pytest.raises(InvalidStatus, match="403"):
            connect(address, origin=origin, open_timeout=PATIENCE)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/viewer//etc/passwd",
        "/static/nothing.js",
        "/static/%00",
        "/static/..\\server.py",
        "/static/" + "a" * 5000,
    ],
)
def test_paths_outside_the_package_give_404(server, path):
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)) as line:
        line.request("GET", f"{path}?token={server.token}")  # as it stands: clients tidy paths
        answer = line.getresponse()
        assert answer.status == 404
        assert b"import" not in answer.read()


def test_every_answer_carries_the_policy(server):
    for path in (f"/?token={server.token}", "/static/main.js", "/static/nothing.js", "/"):
        headers = get(server, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    embedded = get(server, f"/?embed&token={server.token}").headers["content-security-policy"]
    assert "frame-ancestors *" in embedded


def raw(server, data):
    """Bytes straight to the server; whatever it answers."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as line:
        line.settimeout(2)  # not every request of this kind gets an answer
        try:
            line.sendall(data)
            return line.recv(4096)
        except (ConnectionError, TimeoutError):
            return b""


def hostile(server, number):
    """One of the many kinds of requests that nobody should send."""
    chance = random.Random(number)
    kind = number % 10
    junk = chance.randbytes(chance.randrange(1, 3000))
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    if kind == 0:
        return raw(server, junk)
    if kind == 1:
        return raw(server, b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 200_000 + b"\r\n\r\n")
    if kind == 2:
        return raw(server, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n")
    if kind == 3:
        return raw(server, b"POST / HTTP/1.1\r\n" + host + b"Content-Length: 99999999999\r\n\r\n" + junk)
    if kind == 4:
        return raw(
            server, b"GET /channel HTTP/1.1\r\n" + host + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + junk
        )
    if kind == 5:
        verb = chance.choice(["PUT", "DELETE", "TRACE", "PATCH"])
        return httpx.request(verb, f"{server.origin}/?token={server.token}", timeout=PATIENCE)
    with server.line() as line:
        if kind == 6:
            line.send("[" * 20_000)
        elif kind == 7:
            line.send(junk)
        elif kind == 8:
            order = {
                "do": "playground",
                "order": "make",
                "recipe": chance.choice([3, {"depth": 1e9}, {"x": 1}, {"points": "no"}]),
            }
            line.send(json.dumps(order))
        else:
            what = chance.choice(["limits", "nothing", None, [], {}, 7])
            line.send(json.dumps({"id": chance.choice([1, "1", None, True, -5, 1.5]), "do": what, "job": [1]}))
        return line.recv(PATIENCE)


def test_two_hundred_hostile_requests_leave_it_serving(server):
    with concurrent.futures.ThreadPoolExecutor(8) as many:
        list(many.map(lambda number: hostile(server, number), range(200)))
    with server.line() as line:
        assert server.ask(line, id=1, do="limits")["answer"]["defaults"]["data"] == "moons"

        def send_too_much() -> None:  # it hangs up while this is being sent, or with 1009 after it
            line.send("x" * (2 << 20))
            line.recv(PATIENCE)

        with pytest.raises(ConnectionClosed):
            send_too_much()
    with server.line() as line:
        assert "answer" in server.ask(line, id=2, do="limits")


def test_a_bad_request_is_answered_in_words(server):
    with server.line() as line:
        for text in ("{", "[" * 5000):
            line.send(text)
            assert json.loads(line.recv(PATIENCE))["error"] == "a request must be JSON."
        assert "unknown request" in server.ask(line, id=2, do="dance")["error"]
        line.send(json.dumps({"do": "playground", "order": "make", "recipe": {"width": 1000}}))
        assert "width must be a whole number from 1 to 64" in json.loads(line.recv(PATIENCE))["error"]


def test_a_page_goes_on_when_its_server_was_killed_and_started_again(browser):
    first = Server()
    allow = (first.origin, first.origin.replace("http", "ws"))
    lost = ("WebSocket connection", "ERR_CONNECTION")
    with closing(first), opened(browser, f"{first.address}#width=4&depth=1", allow=allow, expect=lost) as page:
        page.wait_for_selector("body[data-ready]")
        page.wait_for_function(DRAWN)
        tiles = page.evaluate(TILES)
        first.close()
        page.wait_for_selector("body[data-connection=lost]")
        expect(page.locator("#message")).to_contain_text("connection to the server was lost")
        with closing(Server("--port", first.port)) as again:  # with another token: the page says where to look
            page.goto(f"{again.address}#width=4&depth=1")
            page.wait_for_selector("body[data-ready]")
            page.wait_for_function(DRAWN)
            expect(page.locator("#message")).to_be_hidden()
            assert page.evaluate(TILES) == tiles > 1  # the same network


def test_requests_that_break_off_or_are_malformed_leave_nothing_and_say_nothing(shelf):
    running = Server(shelf)

    def asked(path, header, *parts):
        """What is answered to a POST whose body comes in parts, each after an answer to those before."""
        told = b""
        address = ("127.0.0.1", running.port)
        with socket.create_connection(address, timeout=PATIENCE) as line, contextlib.suppress(ConnectionError):
            head = f"POST {path}token={running.token} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n{header}\r\n\r\n"
            line.sendall(head.encode() + parts[0])
            for part in parts[1:]:
                told += line.recv(4096)
                line.sendall(part)
            line.shutdown(socket.SHUT_WR)
            while more := line.recv(4096):
                told += more
        return told

    upload, chunked = "/upload?name=half.onnx&", "Transfer-Encoding: chunked"
    try:
        asked(upload, "Content-Length: 1000", b"half")
        assert asked(upload, chunked, b"no number\r\n").startswith(b"HTTP/1.1 400")
        assert asked(upload, chunked, b"4\r\nhalf\r\nno number\r\n").startswith(b"HTTP/1.1 400")
        asked("/?", chunked, b"no number\r\n")  # to what answers without reading
        asked("/?", chunked, b"", b"no number\r\n")  # and has answered before it comes
        with running.line() as line:  # asked after all of them: the server goes on
            names = [entry["name"] for entry in running.ask(line, id=1, do="entries")["answer"]["entries"]]
        assert "upload/half.onnx" not in names
        assert running.interrupt() == 0
        assert running.rest == "Ctrl-C ends it.\n"  # which it says when it starts
    finally:
        running.close()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process are set by Linux only")
def test_attacks_that_use_up_descriptors_names_or_the_disk_leave_it_serving_and_silent(shelf):
    running = Server(shelf)
    address, process = ("127.0.0.1", running.port), running.process.pid

    def sent(name, content):
        asked = {"params": {"name": name}, "headers": {"Authorization": f"Bearer {running.token}"}}
        return httpx.post(f"{running.origin}/upload", content=content, timeout=PATIENCE, **asked)

    try:
        with running.line() as line, contextlib.ExitStack() as idle:
            running.ask(line, id=1, do="open", name="first.onnx")  # torch is loaded, whatever files that takes
            resource.prlimit(process, resource.RLIMIT_NOFILE, (256, 256))
            for _ in range(400):
                idle.enter_context(socket.create_connection(address, timeout=PATIENCE)).sendall(b"GET /")
            assert get(running, f"/?token={running.token}").status_code == 200
            assert "answer" in running.ask(line, id=2, do="limits")
            too_long = sent("é" * 120 + ".onnx", b"x")
            assert (too_long.status_code, "bytes" in too_long.text) == (400, True)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (4096, -1))
            full = sent("large.onnx", bytes(100_000))
            assert (full.status_code, full.text) == (507, "The file could not be kept: File too large.")
            resource.prlimit(process, resource.RLIMIT_FSIZE, (-1, -1))
            line.send(b"\xff\xfe", text=True)
            assert "JSON" in json.loads(line.recv(PATIENCE))["error"]
            assert "answer" in running.ask(line, id=3, do="limits")
            with socket.create_connection(address, timeout=PATIENCE) as half:  # still coming at Ctrl-C
                half.sendall(f"POST /upload?name=a.onnx&token={running.token} HTTP/1.1\r\n".encode())
                half.sendall(f"Host: 127.0.0.1:{running.port}\r\nContent-Length: 99\r\n\r\nhalf".encode())
                assert running.interrupt() == 0
        assert running.rest == "Ctrl-C ends it.\n"
    finally:
        running.close()


@pytest.fixture
def small_server(monkeypatch):
    """A server of the studio's connections, whose time for headers is short; gives its port."""
    monkeypatch.setattr(connection, "HEADERS_WITHIN", 0.2)

    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            await asyncio.sleep(3 * connection.HEADERS_WITHIN)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who connects before the server's thread has started waits
    config = uvicorn.Config(app, http=connection.Connection, lifespan="off", log_level="error", timeout_keep_alive=9999)
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()[1]
    serving.should_exit = True
    thread.join()


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["first", "kept alive"])
def test_a_request_whose_headers_do_not_end_is_hung_up(small_server, before):
    with socket.create_connection(("127.0.0.1", small_server), timeout=PATIENCE) as line:
        line.sendall(before)
        if before:
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        line.settimeout(0.02)
        end, told = time.monotonic() + PATIENCE, None
        with contextlib.suppress(ConnectionError):  # hung up by now
            line.sendall(b"GET /slow HTTP/1.1\r\nX: ")
            while told != b"" and time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    told = line.recv(4096)
                line.sendall(b"x")  # a byte now and then
        assert time.monotonic() < end


def test_a_request_that_is_cut_off_at_the_end_prints_nothing(capfd):
    begun = threading.Event()

    async def never_answers(scope, receive, send):
        begun.set()
        await asyncio.Event().wait()

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(never_answers, http=connection.Connection, lifespan="off", timeout_graceful_shutdown=0)
    serving = connection.Server(config)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
    capfd.readouterr()
    with socket.create_connection(listener.getsockname(), timeout=PATIENCE) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        thread.start()
        assert begun.wait(PATIENCE)
        serving.should_exit = True
        thread.join()
    assert "ERROR" not in capfd.readouterr().err


def test_an_answer_may_take_longer_than_headers(small_server):
    assert httpx.get(f"http://127.0.0.1:{small_server}/slow", timeout=PATIENCE).text == "ok"


def test_the_browser_is_opened_by_a_file_so_that_no_command_line_holds_the_token(monkeypatch):
    opened_at, told = [], []

    def open_browser(address):
        page = Path(url2pathname(urlparse(address).path))
        opened_at.append((address, page, page.read_text(), page.stat().st_mode & 0o777))
        raise KeyboardInterrupt  # Ctrl-C: all that is left to do is to end

    monkeypatch.setattr(server_module.webbrowser, "open", open_browser)
    monkeypatch.setattr(server_module, "_warm_up", lambda: None)
    server_module.serve(at="view=microscope", announce=told.append)
    [(address, page, text, mode)] = opened_at
    token = re.search(r"token=([\w-]+)", told[0])[1]
    assert token not in address
    assert f'content="0; url={told[0]}"' in text
    assert mode == 0o600
    assert not page.exists()


def test_ctrl_c_ends_it_and_leaves_no_process():
    server = Server()
    children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
    with server.line() as line:
        line.send(json.dumps({"do": "playground", "order": "make", "recipe": {}, "run": True}))
        line.recv(PATIENCE)  # it is training now
        below = Path(children).read_text().split()
        assert server.interrupt() in (0, 130)
    end = time.monotonic() + PATIENCE
    while (left := [process for process in below if os.path.exists(f"/proc/{process}")]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
    assert "Traceback" not in server.rest
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    again = Server("--port", server.port)  # the port is free at once
    try:
        assert get(again, f"/?token={again.token}").status_code == 200
        assert get(again, f"/?token={server.token}").status_code == 403
    finally:
        again.interrupt()

"""The server refuses strangers, survives what is thrown at it, and ends when told."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import socket
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

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
        line.send("x" * (2 << 20))
        with pytest.raises(ConnectionClosed, match="1009"):  # message too big
            line.recv(PATIENCE)
    assert server.process.poll() is None


def test_a_bad_request_is_answered_in_words(server):
    with server.line() as line:
        line.send("{")
        assert "JSON" in json.loads(line.recv(PATIENCE))["error"]
        assert "unknown request" in server.ask(line, id=2, do="dance")["error"]
        line.send(json.dumps({"do": "playground", "order": "make", "recipe": {"width": 1000}}))
        assert "width must be a whole number from 1 to 64" in json.loads(line.recv(PATIENCE))["error"]
        assert "two or three columns" in server.ask(line, id=3, do="csv", text="a,b\n1,x")["error"]
        answer = server.ask(line, id=4, do="csv", text="x,y,c\n0,0,3\n10,0,5\n5,5,3\n")
        assert [row[2] for row in answer["answer"]["points"]] == [0, 1, 0]


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

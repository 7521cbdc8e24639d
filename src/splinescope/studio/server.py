"""The server: static files, one WebSocket per page, uploads. `serve` runs it until Ctrl-C."""

from __future__ import annotations

import asyncio
import html
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from ..support.checks import require
from ..support.errors import InputError, SplinescopeError
from .recipe import limits

TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml",
         ".webp": "image/webp"}  # fmt: skip
ADDRESS = "127.0.0.1"
MOST_BYTES = 512 << 20
"""Of one upload."""
DOOR = """<!doctype html><meta charset="utf-8"><title>splinescope studio</title>
<meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Open the studio</a>
"""


class Studio:
    """What all pages share: the pool of workers and what can be asked for."""

    def __init__(self, given: Path | None = None, factory: str | None = None) -> None:
        from .jobs import Pool
        from .library import Library
        from .microscope import Microscope
        from .scratch import Scratch

        self.scratch = Scratch()
        self.library = Library(given, self.scratch.uploads, factory)
        self.pool = Pool()
        self.channels: set[Any] = set()
        self.most_pages = 16
        self.verbs: dict[str, Callable[..., Any]] = {
            "limits": lambda _kept, _job, _message: limits(),
            **Microscope(self.library).verbs,
            "scene": lambda _kept, _job, message: {"frame": _scene(message.get("name"), message.get("seed", 0))},
        }

    def door(self, address: str) -> Path:
        """A page that leads to an address, which only this user can read: a command line is seen by all."""
        page = self.scratch.folder / "open.html"
        page.touch(mode=0o600)
        page.write_text(DOOR.format(address=html.escape(address)), encoding="utf-8")
        return page

    def close(self) -> None:
        """Cancel what runs, and remove what was sent; may be called again."""
        for each in list(self.channels):
            each.close()
        self.pool.close()
        self.scratch.close()


def make_app(*, token: str, hosts: frozenset[str], given: Path | None = None, factory: str | None = None) -> Any:
    """The ASGI application: `token` and `hosts` as for `Guard`, `given` and `factory` as for `Library`."""
    require("starlette", "studio")
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import ClientDisconnect
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    from .channel import channel
    from .guard import Guard
    from .jobs import Job

    studio = Studio(given, factory)
    files = {"/static": _files("splinescope.studio"), "/viewer": _files("splinescope.plot")}

    async def page(_request: Any) -> Response:
        return Response(files["/static"]["index.html"], media_type="text/html")

    def assets(prefix: str) -> Route:
        async def asset(request: Any) -> Response:
            name = request.path_params["name"]
            content = files[prefix].get(name)
            if content is None:
                return Response("There is no such file.\n", 404, media_type="text/plain")
            return Response(content, media_type=TYPES[Path(name).suffix])

        return Route(prefix + "/{name}", asset)

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        yield
        studio.close()

    async def upload(request: Any) -> Response:
        """One file as the body, its name in the query; put among the others only once it is whole and was read."""
        try:
            name = studio.library.upload_name(request.query_params.get("name", ""))
            with tempfile.TemporaryDirectory(dir=studio.scratch.folder, prefix="partial-") as beside:
                partial, size = Path(beside, name), 0
                with partial.open("wb") as written:
                    async for block in request.stream():
                        size += len(block)
                        if size > MOST_BYTES:
                            break
                        written.write(block)
                if not 0 < size <= MOST_BYTES:
                    return Response(f"A file must have 1 to {MOST_BYTES:,} bytes.", 413, media_type="text/plain")
                added = studio.pool.submit(Job(), lambda _job: studio.library.add(partial))
                return Response(await asyncio.wrap_future(added), media_type="text/plain")
        except ClientDisconnect:  # the page was closed: nobody hears the answer, and nothing is kept
            return Response("The file did not come whole.", 400, media_type="text/plain")
        except SplinescopeError as error:
            return Response(str(error), 400, media_type="text/plain")
        except OSError as error:  # a full disk, for one
            return Response(f"The file could not be kept: {error.strerror}.", 507, media_type="text/plain")

    routes = [
        Route("/upload", upload, methods=["POST"]),
        Route("/", page),
        assets("/static"),
        assets("/viewer"),
        WebSocketRoute("/channel", channel),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(Guard, token=token, hosts=hosts)])
    app.state.studio = studio
    return app


def serve(
    given: str | None = None, *, factory: str | None = None, port: int = 0, browser: bool = True, at: str = "",
    announce: Callable[[str], None] = print,
) -> None:  # fmt: skip
    """Run the studio until Ctrl-C.

    Args:
        given: A file or folder for the microscope: networks, tilings, timelines, data; nothing outside is opened.
        factory: `package.module:function` that makes the module for `.safetensors` weights, with an `input_shape`.
        port: Where to listen on 127.0.0.1; 0 for any that is free.
        browser: Open the page.
        at: Where the page opens: the part of its address after `#`, e.g. "story=batch-norm".
        announce: Gets the page's address.
    """
    uvicorn = require("uvicorn", "studio")
    require("websockets", "studio")
    from .connection import BACKLOG, Connection, Server, Socket

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
        listener.listen(128)  # from here on a page that opens waits instead of failing
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(f"port {port} cannot be used: {error}. Choose another one, or 0 for any.") from error
    bound = listener.getsockname()[1]
    token = secrets.token_urlsafe(24)
    hosts = frozenset(f"{name}:{bound}" for name in (ADDRESS, "localhost"))
    app = make_app(token=token, hosts=hosts, given=None if given is None else Path(given), factory=factory)
    config = uvicorn.Config(
        app, log_level="error", http=Connection, ws=Socket, backlog=BACKLOG, ws_max_size=1 << 20,
        ws_per_message_deflate=False,  # on one machine, packing a picture takes longer than sending it
        ws_ping_interval=None,  # and a page that is gone hangs up: one that is silent is busy, and not to be cut off
        timeout_graceful_shutdown=1, lifespan="on", server_header=False, h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    address = f"http://{ADDRESS}:{bound}/?token={token}" + (f"#{at}" if at else "")
    announce(address)
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    try:
        if browser:
            webbrowser.open(app.state.studio.door(address).as_uri())
        Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # Ctrl-C is how it ends
    finally:
        listener.close()
        app.state.studio.close()


def _scene(name: Any, seed: Any) -> dict[str, Any]:
    from .jobs import TORCH
    from .scenes import read_scene

    with TORCH:
        return read_scene(name, seed)


def _warm_up() -> None:
    """Load torch and the compiled kernels while the page is opening."""
    from .jobs import TORCH
    from .recipe import Recipe
    from .trainer import Trainer

    with TORCH:
        Trainer(Recipe(count=8, depth=1, width=2)).frame()


def _files(package: str) -> dict[str, bytes]:
    """The web files of a package, read once: no path from a request ever reaches the disk."""
    folder = resources.files(package) / "web"
    return {each.name: each.read_bytes() for each in folder.iterdir() if Path(each.name).suffix in TYPES}

"""The server: static files, one WebSocket per page, uploads. `serve` runs it until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from .._checks import require
from .._errors import InputError
from .recipe import limits
from .sets import read_csv

TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
ADDRESS = "127.0.0.1"


class Studio:
    """What all pages share: the pool of workers and what can be asked for."""

    def __init__(self) -> None:
        from .workers import Pool

        self.pool = Pool()
        self.channels: set[Any] = set()
        self.most_pages = 16
        self.verbs: dict[str, Callable[..., Any]] = {
            "limits": lambda _kept, _job, _message: limits(),
            "csv": lambda _kept, _job, message: {"points": read_csv(str(message.get("text", "")))},
        }


def make_app(*, token: str, hosts: frozenset[str]) -> Any:
    """The ASGI application.

    Args:
        token: What every request but those for the package's own files must carry.
        hosts: Accepted Host headers.
    """
    require("starlette", "studio")
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    from .channel import channel
    from .guard import Guard

    studio = Studio()
    files = {"/static": _files(__package__), "/viewer": _files("splinescope.plot")}

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

    async def icon(_request: Any) -> Response:
        return Response(files["/static"]["icon.svg"], media_type=TYPES[".svg"])

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        yield
        for each in list(studio.channels):
            each.close()
        studio.pool.close()

    routes = [
        Route("/", page),
        assets("/static"),
        assets("/viewer"),
        Route("/favicon.ico", icon),
        WebSocketRoute("/channel", channel),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(Guard, token=token, hosts=hosts)])
    app.state.studio = studio
    return app


def serve(*, port: int = 0, browser: bool = True, at: str = "", announce: Callable[[str], None] = print) -> None:
    """Run the studio until Ctrl-C.

    Args:
        port: Where to listen on 127.0.0.1; 0 for any that is free.
        browser: Open the page.
        at: Where the page opens: the part of its address after `#`, e.g. "story=batch-norm".
        announce: Gets the page's address.
    """
    uvicorn = require("uvicorn", "studio")
    require("websockets", "studio")
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
    config = uvicorn.Config(
        make_app(token=token, hosts=hosts), log_level="error", ws="websockets-sansio", ws_max_size=1 << 20,
        timeout_graceful_shutdown=1, lifespan="on", server_header=False, h11_max_incomplete_event_size=1 << 16,
    )  # fmt: skip
    address = f"http://{ADDRESS}:{bound}/?token={token}" + (f"#{at}" if at else "")
    announce(address)
    threading.Thread(target=_warm_up, name="warm-up", daemon=True).start()
    if browser:
        webbrowser.open(address)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # Ctrl-C is how it ends
    finally:
        listener.close()


def _warm_up() -> None:
    """Load torch and the compiled kernels while the page is opening."""
    from .recipe import Recipe
    from .trainer import Trainer
    from .workers import TORCH

    with TORCH:
        Trainer(Recipe(count=8, depth=1, width=2)).frame()


def _files(package: str | None) -> dict[str, bytes]:
    """The web files of a package, read once: no path from a request ever reaches the disk."""
    assert package is not None
    folder = resources.files(package) / "web"
    return {each.name: each.read_bytes() for each in folder.iterdir() if Path(each.name).suffix in TYPES}

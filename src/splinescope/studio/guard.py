"""Who may ask: the right host, the right origin, the token of this run; and the headers that every answer has."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/static/", "/viewer/")
"""Files of the package itself: they tell nothing, and a page's modules cannot carry a token."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Guard:
    """ASGI middleware. No cookie is set: what a foreign page sends carries no token, so it is refused.

    Args:
        app: The application behind it.
        token: Must come as `?token=` or `Authorization: Bearer`, but for the package's own files.
        hosts: Accepted values of the Host header; a name that an attacker points at this machine is not among them.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = {f"http://{host}" for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        refusal = self._refusal(scope["path"], headers, query)
        ancestors = "*" if "embed" in query else "'none'"

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                out["Content-Security-Policy"] = POLICY.format(ancestors=ancestors)
                for name, value in HEADERS.items():
                    out[name] = value
            await send(message)

        if refusal is None:
            await self._app(scope, receive, with_headers)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": refusal})  # the handshake gets 403
        else:
            await PlainTextResponse(refusal + "\n", 403)(scope, receive, with_headers)

    def _refusal(self, path: str, headers: Headers, query: dict[str, list[str]]) -> str | None:
        if headers.get("host") not in self._hosts:
            return "This server answers only to its own address."
        if headers.get("origin") not in (None, *self._origins):
            return "Requests from other sites are refused."
        if path.startswith(OPEN):
            return None
        given = query.get("token", [""])[0] or headers.get("authorization", "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            return "Open the address that `splinescope studio` printed: it carries the token of this run."
        return None

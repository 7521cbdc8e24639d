"""Connections as uvicorn keeps them, with bounds on their number and on how long a request may take to come."""

import asyncio
import logging
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

MOST_CONNECTIONS = 64
"""Far below the descriptors that a process may have: 256 on some systems."""
HEADERS_WITHIN = 10.0
"""Seconds from the opening of a connection, or from the last answer, to the end of a request's headers."""
BACKLOG = 16
"""Connections accepted in one turn of the loop; the next turn closes what is too many."""


class Server(uvicorn.Server):
    """A server that ends silently: a request that Ctrl-C cuts off is no error."""

    async def shutdown(self, sockets: Any = None) -> None:
        # A connection accepted in the turn that closes the listener is cancelled by uvicorn, which logs a traceback.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


class Connection(H11Protocol):
    """HTTP of which no client can hold the server up, nor make it print.

    A connection whose request does not come is closed: after `HEADERS_WITHIN`, or at once to make room for a new one.
    A malformed request is answered with 400 unless an answer has begun.
    """

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._await_request()
        there = [each for each in self.connections if not each.transport.is_closing()]
        waiting = [each for each in there if isinstance(each, Connection) and each.waits]
        if len(there) > MOST_CONNECTIONS:
            min(waiting, key=lambda each: each.since).transport.abort()  # this one waits itself

    @property
    def waits(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _await_request(self) -> None:
        self._forget_deadline()
        self.since = self.loop.time()
        self._deadline = self.loop.call_later(HEADERS_WITHIN, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if self.waits:
            self.transport.abort()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def on_response_complete(self) -> None:
        self._await_request()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._forget_deadline()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What the application has still to say to this request is said to nobody."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.cycle is None or not self.cycle.response_started:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """At Ctrl-C nobody waits for a request that is half here."""
        self.transport.close()


class Socket(WebSocketsSansIOProtocol):
    """WebSockets whose messages reach the page's channel undecoded: what is no text is answered there in words."""

    def handle_text(self, event: Any) -> None:
        self.handle_bytes(event)

    def shutdown(self) -> None:
        """At Ctrl-C nobody waits for a page that no longer reads."""
        super().shutdown()
        self.transport.abort()

"""One page's WebSocket: requests as JSON with a number, answers with the same number, frames as bytes.

page:   {"id": 3, "do": "tile", ...}
server: {"id": 3, "progress": 0.4, "now": "1200 tiles"}, then {"id": 3, "answer": ...} or {"id": 3, "error": "..."};
        or a frame whose header has "id": 3
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from ..plot.frame import pack
from ..support.errors import InputError, SplinescopeError
from .jobs import Cancelled, Job, fault
from .playground import Playground

if TYPE_CHECKING:
    from .server import Studio

MOST_JOBS = 8
"""Jobs of one page at a time."""


async def channel(websocket: WebSocket) -> None:
    """Serve one page until it leaves."""
    studio: Studio = websocket.app.state.studio
    await websocket.accept()
    if len(studio.channels) >= studio.most_pages:
        await websocket.send_text(json.dumps({"fatal": "Too many pages are open: close one and reload."}))
        await websocket.close(1013)
        return
    page = Channel(studio, asyncio.get_running_loop())
    studio.channels.add(page)
    sender = asyncio.create_task(page.send_all(websocket))
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                break
            page.take(message["bytes"])
    except WebSocketDisconnect:
        pass  # the page has left: what follows cleans up
    finally:
        studio.channels.discard(page)
        page.close()
        sender.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sender


class Channel:
    """What one page has under way."""

    def __init__(self, studio: Studio, loop: asyncio.AbstractEventLoop) -> None:
        self._studio = studio
        self._loop = loop
        self._outbox: asyncio.Queue[str | bytes] = asyncio.Queue()
        self._jobs: dict[int, Job] = {}
        self._playground: Playground | None = None
        self._kept: dict[str, Any] = {}

    async def send_all(self, websocket: WebSocket) -> None:
        while True:
            message = await self._outbox.get()
            try:
                if isinstance(message, bytes):
                    await websocket.send_bytes(message)
                else:
                    await websocket.send_text(message)
            except (WebSocketDisconnect, RuntimeError):
                return  # the page has left in between

    def close(self) -> None:
        for job in self._jobs.values():
            job.cancel()
        if self._playground is not None:
            self._playground.close()

    def post(self, message: Any) -> None:
        """Send from any thread: bytes and text as they are, anything else as JSON."""
        out = message if isinstance(message, (bytes, str)) else json.dumps(message)
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is there to read
            self._loop.call_soon_threadsafe(self._outbox.put_nowait, out)

    def take(self, text: bytes) -> None:
        """Act on one message; whatever is wrong with it is answered, never raised."""
        number: Any = None
        try:
            message = json.loads(text)
            if not isinstance(message, dict):
                raise InputError("a request must be an object.")
            number = message.get("id")
            if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
                number = None
                raise InputError("id must be a whole number.")
            self._do(number, message)
        except SplinescopeError as error:
            self.post({"id": number, "error": str(error)})
        except (ValueError, RecursionError):
            self.post({"id": number, "error": "a request must be JSON."})

    def _do(self, number: int | None, message: dict[str, Any]) -> None:
        what = message.get("do")
        if what == "playground":
            if self._playground is None:
                self._playground = Playground(self.post, lambda text: self.post({"playground": "error", "error": text}))
            self._playground.order(message)
        elif what == "cancel":
            job = self._jobs.get(message.get("job", -1)) if isinstance(message.get("job"), int) else None
            if job is not None:
                job.cancel()
        elif isinstance(what, str) and what in self._studio.verbs:
            if number is None:
                raise InputError("a request needs an id.")
            self._start(number, self._studio.verbs[what], message)
        else:
            raise InputError(f"unknown request {str(what)[:40]!r}.")

    def _start(self, number: int, verb: Callable[..., Any], message: dict[str, Any]) -> None:
        if len(self._jobs) >= MOST_JOBS or number in self._jobs:
            raise InputError("this page has too much under way: wait or cancel.")
        job = Job(lambda share, now: self.post({"id": number, "progress": share, "now": now}))

        def work(job: Job) -> bytes | str:
            answer = verb(self._kept, job, message)
            frame = answer.get("frame")
            return json.dumps({"id": number, "answer": answer}) if frame is None else pack({"id": number, **frame})

        future = self._studio.pool.submit(job, work)
        self._jobs[number] = job
        future.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, done: Future[bytes | str]) -> None:
        """Answer for a job; a fault of ours must not take the server down, nor be hidden."""
        self._jobs.pop(number)
        error = done.exception()
        if error is None:
            self.post(done.result())
        elif isinstance(error, Cancelled):
            self.post({"id": number, "error": "cancelled", "cancelled": True})
        else:
            self.post({"id": number, "error": str(error) if isinstance(error, SplinescopeError) else fault(error)})

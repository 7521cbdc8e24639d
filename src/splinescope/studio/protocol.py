"""HTTP as uvicorn speaks it, but without a traceback on the terminal when a body turns out to be malformed."""

from __future__ import annotations

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Protocol(H11Protocol):
    """Answers a malformed request with 400 if nothing was answered yet, hangs up in any case, and goes on serving."""

    def send_400_response(self, msg: str) -> None:
        """What the application has still to say to this request is said to nobody."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

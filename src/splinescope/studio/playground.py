"""`Playground`: one page's network in training, on a thread of its own that takes orders and sends frames.

At most two frames are under way: the next is made while the page draws the last, and a slow page slows the training
instead of filling a queue. Orders that come while a frame is made are all carried out before the next one.
"""

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..plot.frame import pack
from ..support.checks import check_whole
from ..support.errors import InputError, LimitReached, SplinescopeError
from ..support.threads import one_torch_thread
from .jobs import TORCH, fault
from .library import tiling_file
from .recipe import Recipe
from .trainer import SHOWN, Trainer

FASTEST = 200
FURTHEST = 100_000
"""Steps that a link may ask for."""
_PIECE = 50
_UNDER_WAY = 2
_COUNT_EVERY = 0.15  # seconds between points of the curve of tiles nearby, while training runs


class Playground:
    """Takes orders by `order`; gives frames to `send` and errors to `fail`, from its own thread."""

    def __init__(self, send: Callable[[bytes], None], fail: Callable[[str], None]) -> None:
        self._send = send
        self._fail = fail
        self._orders: queue.Queue[Mapping[str, Any] | None] = queue.Queue(1000)
        self._trainer: Trainer | None = None
        self._running = False
        self._speed = 1
        self._stale = False
        self._ahead = 0  # steps to train before the next picture
        self._until: int | None = None  # the step at which training pauses, once
        self._counted = 0.0
        self._color = "class"
        self._selected: tuple[int, int] | None = None
        self._credit = _UNDER_WAY
        self._tag: Any = None
        self._thread = threading.Thread(target=self._work, name="playground", daemon=True)
        self._thread.start()

    def order(self, order: Mapping[str, Any]) -> None:
        """Queue an order of the page; more than a thousand waiting are refused."""
        try:
            self._orders.put_nowait(order)
        except queue.Full as error:
            raise InputError("too many orders at once.") from error

    def close(self) -> None:
        self._running = False
        try:
            self._orders.put_nowait(None)
        except queue.Full:
            self._orders.get_nowait()
            self._orders.put_nowait(None)

    def _work(self) -> None:
        with one_torch_thread():  # of small networks: on busy cores, threads wait for each other
            self._take_orders()

    def _take_orders(self) -> None:
        while True:
            ready = self._trainer is not None and self._credit > 0 and (self._running or self._stale)
            try:
                while True:
                    order = self._orders.get(block=not ready)
                    if order is None:
                        return
                    self._attempt(self._obey, order)
                    ready = self._trainer is not None and self._credit > 0 and (self._running or self._stale)
            except queue.Empty:
                self._attempt(self._show)

    def _attempt(self, act: Callable[..., None], *arguments: Any) -> None:
        """One bad order, or a network that cannot be tiled, is told and does not end the thread."""
        try:
            with TORCH:
                act(*arguments)
        except LimitReached:
            self._pause(
                "The square has more tiles than the playground draws: choose a smaller network or a larger tolerance."
            )
        except SplinescopeError as error:
            self._pause(str(error))
        except Exception as error:
            self._pause(fault(error))

    def _pause(self, message: str) -> None:
        self._running, self._stale, self._ahead = False, False, 0
        self._fail(message)

    def _obey(self, order: Mapping[str, Any]) -> None:
        name = order.get("order")
        if name == "ack":
            self._credit = min(_UNDER_WAY, self._credit + 1)
            return
        if name == "make":
            self._tag = order.get("tag")
            self._trainer, self._ahead = None, 0
            steps = check_whole(order.get("steps", 0), "steps", least=0, most=FURTHEST)
            until = order.get("until")
            self._until = None if until is None else check_whole(until, "until", most=FURTHEST)
            self._trainer = Trainer(Recipe.read(order.get("recipe", {})))
            self._selected = None
            self._ahead = steps
            self._running = bool(order.get("run", False))
            self._stale = True
            return
        if name == "speed":
            self._speed = check_whole(order.get("steps"), "steps", most=FASTEST)
            return
        if name == "run":
            self._running = bool(order.get("running")) and self._trainer is not None
            self._stale = self._trainer is not None  # a picture at rest tells more of each tile
            return
        if name == "color":
            self._color = str(order.get("color"))
            self._stale = self._trainer is not None
            return
        if self._trainer is None:
            raise InputError("make a network first.")
        if name == "step":
            self._trainer.train(1)
        elif name == "move":
            self._trainer.move_point(order.get("point"), order.get("x"), order.get("y"))
        elif name == "fold":
            place = {key: order.get(key) for key in ("layer", "unit", "x", "y")}
            self._trainer.move_fold(**place, knot=order.get("knot", 0.0))
        elif name == "weight":
            self._trainer.set_weight(order.get("layer"), order.get("unit"), order.get("source"), order.get("value"))
        elif name == "take":
            self._send(pack({"tag": order.get("tag"), **tiling_file(self._trainer.tile(), "playground")}))
            return
        elif name == "select":
            unit = order.get("unit")
            self._selected = None
            if isinstance(unit, (list, tuple)) and len(unit) == 2:
                self._trainer.unit_weights(*unit)  # refuses what is not there
                self._selected = (unit[0], unit[1])
        else:
            raise InputError(f"the playground does not know the order {str(name)[:40]!r}.")
        self._stale = True

    def _show(self) -> None:
        assert self._trainer is not None
        if self._ahead:  # a piece at a time: orders, and other pages, are not kept waiting
            steps = min(self._ahead, _PIECE)
            self._trainer.train(steps)
            self._ahead -= steps
            return
        if self._running:
            left = math.inf if self._until is None else self._until - self._trainer.steps
            self._trainer.train(int(min(self._speed, left)) if left > 0 else self._speed)
            if self._trainer.steps == self._until:
                self._running = False
        shown = ("class", self._color) if self._running else SHOWN
        now = time.monotonic()
        near = not self._running or now - self._counted > _COUNT_EVERY
        if near:
            self._counted = now
        frame = {**self._trainer.frame(self._selected, shown, near=near), "tag": self._tag, "running": self._running}
        self._stale = False
        self._credit -= 1
        self._send(pack(frame))

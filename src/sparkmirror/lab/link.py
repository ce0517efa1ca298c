"""A line to a broker on this machine, as a proxy: it can be long, and it can be broken in the ways that lines break.

Every byte is delivered a while after it came; a round trip takes twice the delay, plus what the two ends take. Nothing
else of a long line is imitated: there is no limit of bandwidth, no loss, and connecting takes no round trip of its own,
since the proxy answers it. While it runs it can be made slower, be cut, be held up (bytes wait) and go dead (bytes
vanish while the connection stands), each direction by itself.

Invariants: bytes arrive whole and in order, but for those that vanish; a connection that has lost bytes is broken when
the line is mended, so that nobody reads on behind a hole; the end of one direction leaves the other one open; a
connection that breaks on one side breaks on the other, after what was on its way; a direction holds at most
`MOST_BYTES` and one read more, then it stops reading, so that its sender has to wait.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Final, TypeAlias

from sparkmirror.errors import LabError
from sparkmirror.lab.ports import HOST, PortTakenError

DELAY_MS: Final = 50.0
MOST_BYTES: Final = 64 << 20
STOP_SECONDS: Final = 10.0
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class _Mark(Enum):
    """What travels beside the bytes."""

    END = "the sender has sent all"
    BREAK = "the connection is gone"


_Load: TypeAlias = bytes | _Mark


class Way(Enum):
    """A direction of the line."""

    TO_BROKER = "to the broker"
    FROM_BROKER = "from the broker"


class Flow(Enum):
    """What becomes of the bytes of a direction."""

    FREE = "they are delivered"
    HELD = "they wait"
    LOST = "they vanish"


@dataclass(slots=True)
class _Condition:
    """How the line is at the moment; looked at for every piece of data."""

    delay_s: float
    cut: bool = False
    flows: dict[Way, Flow] = field(default_factory=lambda: dict.fromkeys(Way, Flow.FREE))


class Link:
    """Forwards the connections to one port to another one, late; a context manager. It runs in a thread of its own.

    Args:
        to_port: where the broker listens.
        port: where the link does; any free one unless given.
        delay_ms: how long each byte is on its way, in either direction.
        most_bytes: how much may be on its way in one direction of a connection.

    Attributes:
        port: where the link listens, once it is started.
    """

    def __init__(
        self, to_port: int, *, port: int = 0, delay_ms: float = DELAY_MS, most_bytes: int = MOST_BYTES
    ) -> None:
        self.port = port
        self._to_port, self._delay_s, self._most = to_port, delay_ms / 1000, most_bytes
        self._condition = _Condition(delay_s=self._delay_s)
        self._ends: set[_End] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"link to {to_port}", daemon=True)
        self._listening: Future[int] = Future()

    def start(self) -> Link:
        """Listens from here on.

        Raises:
            PortTakenError: the port is not free.
        """
        self._thread.start()
        self.port = self._listening.result(STOP_SECONDS)
        return self

    def stop(self) -> None:
        """Breaks what is connected and ends. May be called again."""
        if self._loop is not None:
            with suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def slow(self, delay_ms: float) -> None:
        """Makes the line longer, for what comes from here on; bytes never overtake."""
        self._do(lambda: setattr(self._condition, "delay_s", delay_ms / 1000))

    def cut(self) -> None:
        """Breaks every connection, and turns away who connects, until it is mended."""

        def cut() -> None:
            self._condition.cut = True
            for end in tuple(self._ends):
                end.break_off()

        self._do(cut)

    def hold(self, *ways: Way) -> None:
        """From here on the bytes of these directions wait; connections stand, and new ones are taken."""
        self._do(lambda: self._condition.flows.update(dict.fromkeys(ways, Flow.HELD)))

    def lose(self, *ways: Way) -> None:
        """From here on the bytes of these directions vanish, as on a line of which one half is dead."""
        self._do(lambda: self._condition.flows.update(dict.fromkeys(ways, Flow.LOST)))

    def mend(self) -> None:
        """All is as at the start: what waits is delivered, what has lost bytes is broken."""

        def mend() -> None:
            self._condition.delay_s, self._condition.cut = self._delay_s, False
            self._condition.flows.update(dict.fromkeys(Way, Flow.FREE))
            for end in tuple(self._ends):
                end.mend()

        self._do(mend)

    def _do(self, change: Callable[[], object]) -> None:
        """Changes the line in the link's own thread, and returns when that is done.

        Raises:
            LabError: the link does not run.
        """
        loop, done = self._loop, threading.Event()
        if loop is None or loop.is_closed():
            raise LabError(f"the link on port {self.port} does not run")

        def run() -> None:
            change()
            done.set()

        loop.call_soon_threadsafe(run)
        if not done.wait(STOP_SECONDS):
            raise LabError(f"the link on port {self.port} did not answer within {STOP_SECONDS:.0f} s")

    def __enter__(self) -> Link:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._forward())

    async def _forward(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            server = await self._loop.create_server(self._accepted, HOST, self.port)
        except OSError as problem:
            self._listening.set_exception(PortTakenError(f"the link cannot listen on port {self.port}: {problem}"))
            return
        self._listening.set_result(server.sockets[0].getsockname()[1])
        await self._stopping.wait()
        server.close()
        for end in tuple(self._ends):
            end.break_off()
        while self._ends:
            await asyncio.sleep(0)

    def _accepted(self) -> _End:
        near, far = (_End(self._ends, self._condition, way, self._most) for way in (Way.TO_BROKER, Way.FROM_BROKER))
        near.other, far.other = far, near
        near.reaching = self._reach(near, far)
        return near

    async def _reach(self, near: _End, far: _End) -> None:
        """Connects to the broker; a client of a broker that is away is turned away."""
        loop = asyncio.get_running_loop()
        if self._condition.cut:
            near.break_off()
            return
        try:
            await loop.create_connection(lambda: far, HOST, self._to_port)
        except OSError:
            near.break_off()


class _End(asyncio.Protocol):
    """One of the two connections that make up a forwarded one, and what came from it and is on its way to the other.

    Attributes:
        other: the connection that this one's bytes go to.
        reaching: connects the other one, or None.
    """

    other: _End

    def __init__(self, ends: set[_End], condition: _Condition, way: Way, most: int) -> None:
        self.reaching: Coroutine[Any, Any, None] | None = None
        self._loop = asyncio.get_running_loop()
        self._ends, self._condition, self._way, self._most = ends, condition, way, most
        self._holed = False
        self._transport: asyncio.Transport | None = None
        self._line: deque[tuple[float, _Load]] = deque()
        self._held = 0
        self._full = True  # nothing can be delivered to it before it is connected
        self._ended = self._told_end = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends.add(self)
        if self.reaching is not None:
            self._task = self._loop.create_task(self.reaching)
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        """Bytes begin their way."""
        if self._vanishes():
            return
        self._held += len(data)
        if self._held > self._most and self._transport is not None:
            self._transport.pause_reading()
        self._depart(data)

    def eof_received(self) -> bool:
        """The sender has sent all; it may still receive."""
        self._ended = True
        if not self._vanishes():
            self._depart(_Mark.END)
        return not self._told_end

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio gives it
        """The connection is gone, by our hand or not."""
        self._ends.discard(self)
        self._transport, self._full = None, False  # what still comes for it is thrown away
        if self._told_end and self._ended:
            return
        if not self._vanishes():
            self._depart(_Mark.BREAK)

    def pause_writing(self) -> None:
        """The receiver is slower than the sender."""
        self._full = True

    def resume_writing(self) -> None:
        """The receiver takes more."""
        self._full = False
        self.other._deliver()

    def break_off(self) -> None:
        """Ends the connection as a crash of the other side would."""
        if self._transport is not None:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()

    def mend(self) -> None:
        """The line is free again; the other end may be gone, and what it sent still be on its way."""
        if self._holed:
            self.break_off()
        else:
            self._deliver()
            self.other._deliver()

    def _vanishes(self) -> bool:
        """Whether what comes now is lost; both ends know from then on that they have nothing more to say."""
        if self._condition.flows[self._way] is not Flow.LOST:
            return False
        self._holed = self.other._holed = True
        return True

    def _depart(self, load: _Load) -> None:
        due = self._loop.time() + self._condition.delay_s
        self._line.append((max(due, self._line[-1][0]) if self._line else due, load))
        if len(self._line) == 1:
            self._deliver()

    def _deliver(self) -> None:
        """Hands over what has been on its way long enough, while the other one takes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._condition.flows[self._way] is not Flow.FREE:
            return
        now = self._loop.time()
        while self._line and not self.other._full:
            due, load = self._line[0]
            if due > now:
                self._timer = self._loop.call_at(due, self._deliver)
                return
            self._line.popleft()
            self.other._take(load)
            if isinstance(load, bytes):
                self._arrived(len(load))

    def _arrived(self, size: int) -> None:
        before, self._held = self._held, self._held - size
        if self._transport is not None and self._held <= self._most < before:
            self._transport.resume_reading()

    def _take(self, load: _Load) -> None:
        if self._transport is None:
            return
        if load is _Mark.BREAK:
            self.break_off()
        elif load is _Mark.END:
            self._end()
        else:
            self._transport.write(load)

    def _end(self) -> None:
        assert self._transport is not None
        self._told_end = True
        try:
            self._transport.write_eof()
        except OSError:  # it broke after it had sent all: nobody reads from it any more, so nobody noticed
            self.break_off()
        else:
            if self._ended:
                self._transport.close()

"""The raw limit: what one Python process can move between two brokers when it does nothing but move.

Fetches batches, rewrites the header fields that a broker demands (base offset 0, no producer, no transactional bit),
recomputes the CRC32C and produces the batches as they are. No Spark, no progress, no sequences, no retries, no merging,
no look inside a batch. It is the denominator of the benchmark, so it is written for speed: each half of the partitions
has a connection to either broker (a broker prepares one answer while the other is worked on), the next fetch leaves
before the last one's batches are touched, five produce requests are in flight per connection, and there is one copy,
from the socket into memory: the batches are sent from the buffer that they were received in.

Each broker must be the leader of every partition, as the benchmark's single-node clusters are. Fetch v11 and Produce v8
(the last without compact encoding) are understood by every Kafka from 2.4 to 4.x. Any error ends the process.

    raw.py SOURCE TARGET SOURCE_TOPIC TARGET_TOPIC PARTITIONS [--until N]
"""

from __future__ import annotations

import argparse
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator

from crc32c import crc32c

FETCH, FETCH_VERSION, PRODUCE, PRODUCE_VERSION = 1, 11, 0, 8
PARTITION_BYTES, RESPONSE_BYTES = 1 << 20, 8 << 20
PRODUCE_IN_FLIGHT, HELD_BYTES = 5, 32 << 20
WAIT_MS, SILENCE_S = 500, 30.0
BATCH_HEADER = 61
KEPT_ATTRIBUTES = 0x0F  # codec and timestamp type; the transactional bit and what is unknown goes
IOV_MAX = 512

Response = Callable[[memoryview], None]


class Link:
    """One non-blocking connection: requests out, responses in, in order."""

    def __init__(self, address: str, selector: selectors.BaseSelector) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.selector = selector
        self.waiting: deque[Response] = deque()
        self._out: deque[memoryview] = deque()
        self._head, self._head_fill = bytearray(4), 0
        self._body, self._body_fill = memoryview(b""), 0
        selector.register(self.socket, selectors.EVENT_READ, self)

    def send(self, api: int, version: int, parts: list[bytes | memoryview], done: Response) -> None:
        """Queues one request; ``done`` gets the answer's body."""
        head = struct.pack(">hhih", api, version, len(self.waiting), 3) + b"raw"
        self._out.append(memoryview(struct.pack(">i", len(head) + sum(map(len, parts))) + head))
        self._out.extend(memoryview(part) for part in parts)
        self.waiting.append(done)
        self.flush()

    def flush(self) -> None:
        """Sends what the socket takes, straight from the buffers."""
        out = self._out
        while out:
            try:
                sent = self.socket.sendmsg([out[i] for i in range(min(len(out), IOV_MAX))])
            except BlockingIOError:
                self.selector.modify(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
                return
            while sent:
                if sent < len(out[0]):
                    out[0] = out[0][sent:]
                    break
                sent -= len(out.popleft())
        self.selector.modify(self.socket, selectors.EVENT_READ, self)

    def receive(self) -> None:
        """Takes what has come; calls back for each answer that is whole."""
        while True:
            try:
                if self._head_fill < 4:
                    count = self.socket.recv_into(memoryview(self._head)[self._head_fill :])
                    self._head_fill += count
                    if self._head_fill == 4:
                        self._body, self._body_fill = memoryview(bytearray(int.from_bytes(self._head, "big"))), 0
                else:
                    count = self.socket.recv_into(self._body[self._body_fill :])
                    self._body_fill += count
            except BlockingIOError:
                return
            if not count:
                raise SystemExit("the broker closed the connection")
            if self._head_fill == 4 and self._body_fill == len(self._body):
                body, self._head_fill = self._body, 0
                self.waiting.popleft()(body[4:])


class Mover:
    """Moves some partitions of one topic, for ever."""

    def __init__(self, source: Link, target: Link, topics: tuple[str, str], partitions: range) -> None:
        self.source, self.target = source, target
        self.source_topic, self.target_topic = (_string(name) for name in topics)
        self.offsets = dict.fromkeys(partitions, 0)
        self.queue: deque[tuple[list[bytes | memoryview], int, int]] = deque()
        self.held = self.acked = 0

    def fetch(self) -> None:
        """Asks for what comes next."""
        asked = b"".join(
            struct.pack(">iiqqi", partition, -1, offset, -1, PARTITION_BYTES)
            for partition, offset in self.offsets.items()
        )
        head = struct.pack(">iiiibii", -1, WAIT_MS, 1, RESPONSE_BYTES, 1, 0, -1)
        topics = struct.pack(">i", 1) + self.source_topic + struct.pack(">i", len(self.offsets))
        self.source.send(FETCH, FETCH_VERSION, [head + topics + asked + struct.pack(">ih", 0, 0)], self.fetched)

    def fetched(self, answer: memoryview) -> None:
        """Reads positions first, so that the next fetch is on its way while these batches are worked on."""
        records = list(_fetched_records(answer))
        batches = {partition: list(_batches(data)) for partition, data in records}
        for partition, found in batches.items():
            if found:
                last = found[-1]
                base, delta = int.from_bytes(last[:8], "big"), int.from_bytes(last[23:27], "big")
                self.offsets[partition] = base + delta + 1
        if self.held < HELD_BYTES:
            self.fetch()
        self.enqueue(batches)

    def enqueue(self, batches: dict[int, list[memoryview]]) -> None:
        """One batch per partition and request, as brokers demand."""
        columns = {partition: deque(found) for partition, found in batches.items() if found}
        while columns:
            taken = [(partition, column.popleft()) for partition, column in columns.items()]
            columns = {partition: column for partition, column in columns.items() if column}
            parts: list[bytes | memoryview] = [
                struct.pack(">hhi", -1, -1, 30_000)
                + struct.pack(">i", 1)
                + self.target_topic
                + struct.pack(">i", len(taken))
            ]
            count = size = 0
            for partition, batch in taken:
                count += _rewrite(batch)
                size += len(batch)
                parts += (struct.pack(">ii", partition, len(batch)), batch)
            self.held += size
            self.queue.append((parts, count, size))
            self.pump()

    def pump(self) -> None:
        """Keeps PRODUCE_IN_FLIGHT requests at the target, and the source asked."""
        while self.queue and len(self.target.waiting) < PRODUCE_IN_FLIGHT:
            parts, count, size = self.queue.popleft()
            self.target.send(PRODUCE, PRODUCE_VERSION, parts, lambda a, c=count, s=size: self.produced(a, c, s))  # type: ignore[misc]  # mypy infers no lambda with defaults
        if not self.source.waiting and self.held < HELD_BYTES:
            self.fetch()

    def produced(self, answer: memoryview, count: int, size: int) -> None:
        """Checks that every partition was written."""
        _check_produced(answer)
        self.held -= size
        self.acked += count
        self.pump()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _fetched_records(answer: memoryview) -> Iterator[tuple[int, memoryview]]:
    _, error, _, topics = struct.unpack_from(">ihii", answer)
    _expect(error, "fetch")
    at = 14
    for _ in range(topics):
        at += 2 + struct.unpack_from(">h", answer, at)[0]
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(partitions):
            partition, error, _, _, _, aborted = struct.unpack_from(">ihqqqi", answer, at)
            _expect(error, f"fetch of partition {partition}")
            at += 34 + max(0, aborted) * 16 + 4
            (size,) = struct.unpack_from(">i", answer, at)
            at += 4
            yield partition, answer[at : at + max(0, size)]
            at += max(0, size)


def _batches(data: memoryview) -> Iterator[memoryview]:
    at, end = 0, len(data)
    while at + BATCH_HEADER <= end:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > end:
            return
        yield data[at : at + size]
        at += size


def _rewrite(batch: memoryview) -> int:
    """Makes a fetched batch one that a broker accepts, in place; returns its records."""
    (attributes,) = struct.unpack_from(">h", batch, 21)
    struct.pack_into(">q", batch, 0, 0)
    struct.pack_into(">i", batch, 12, -1)
    struct.pack_into(">h", batch, 21, attributes & KEPT_ATTRIBUTES)
    struct.pack_into(">qhi", batch, 43, -1, -1, -1)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return int(struct.unpack_from(">i", batch, 57)[0])


def _check_produced(answer: memoryview) -> None:
    (topics,) = struct.unpack_from(">i", answer)
    at = 4
    for _ in range(topics):
        at += 2 + struct.unpack_from(">h", answer, at)[0]
        (partitions,) = struct.unpack_from(">i", answer, at)
        at += 4
        for _ in range(partitions):
            partition, error = struct.unpack_from(">ih", answer, at)
            _expect(error, f"produce to partition {partition}")
            (errors,) = struct.unpack_from(">i", answer, at + 30)
            at += 34
            assert errors == 0, "a broker that reports no error names no record"
            at += 2


def _expect(error: int, what: str) -> None:
    if error:
        raise SystemExit(f"{what}: Kafka error {error}")


def main() -> None:
    """Moves until done, or until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("source", "target", "source_topic", "target_topic"):
        parser.add_argument(name)
    parser.add_argument("partitions", type=int)
    parser.add_argument("--until", type=int, default=0, help="end after this many records; 0: never")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    selector = selectors.DefaultSelector()
    topics = given.source_topic, given.target_topic
    movers = [
        Mover(Link(given.source, selector), Link(given.target, selector), topics, half)
        for half in (range(0, given.partitions, 2), range(1, given.partitions, 2))
        if half
    ]
    for mover in movers:
        mover.fetch()
    last_sign, acked = time.monotonic(), 0
    while not given.until or acked < given.until:
        for key, events in selector.select(timeout=1):
            if events & selectors.EVENT_WRITE:
                key.data.flush()
            if events & selectors.EVENT_READ:
                key.data.receive()
        before, acked = acked, sum(mover.acked for mover in movers)
        if acked != before:
            last_sign = time.monotonic()
        if given.until and time.monotonic() - last_sign > SILENCE_S:
            raise SystemExit(f"nothing was acknowledged for {SILENCE_S:.0f} s, {acked} of {given.until} done")


if __name__ == "__main__":
    main()

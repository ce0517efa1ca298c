"""The kernels of ``sparkmirror.batches`` by themselves, on one core: ``python bench/kernels.py [--json]``.

Each figure is the best of several runs over about a mebibyte of batches, as a fetch answer has them. The targets are
those of the project's plan; the ratios to other replicators come from ``run.py``.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import crc32c

STARTED = time.perf_counter()
from sparkmirror import batches  # noqa: E402  how long this takes is one of the figures

batches.warm()
LOADED_S = time.perf_counter() - STARTED

MIB = 1 << 20
TARGET = batches.TargetTopic(log_append_time=False, max_message_bytes=8 * MIB)
STAMP = batches.Stamp(producer_id=1000, epoch=1, sequence=0)
TIMES = ("ms", "µs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table; ``target`` is the least (for times the most) that is asked for, or None."""

    what: str
    value: float
    unit: str
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None:
            return None
        return self.value <= self.target if self.unit in TIMES else self.value >= self.target


def best(work: Callable[[], object], seconds: float = 0.3) -> float:
    """The shortest time that one call took, in seconds."""
    shortest, stop = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < stop:
        began = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest


def record(value: bytes) -> bytes:
    """A record without a key, its deltas zero."""
    body = b"\0\0\0\1" + _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    out, value = bytearray(), value << 1
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def log(values: list[bytes]) -> bytearray:
    """One-record batches, one after the other."""
    out = bytearray()
    for offset, value in enumerate(values):
        payload = record(value)
        now = 1_700_000_000_000 + offset
        after = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + payload
        out += struct.pack(">qiibI", offset, 9 + len(after), 0, 2, crc32c.crc32c(after)) + after
    return out


def run_of(data: bytes | bytearray | memoryview) -> batches.Run:
    """All batches of an answer, kept."""
    found = batches.index(data)
    return batches.Run(indexed=found, kept=batches.keep(found, start_offset=0), first=0, stop=len(found))


def small_batches() -> Iterator[Figure]:
    """A mebibyte of one-record batches of 100 B."""
    data = log([bytes(100)] * 6000)
    run = run_of(data)
    count = len(run.indexed)

    def decide() -> None:
        found = batches.index(data)
        kept = batches.keep(found, start_offset=0)
        needed = batches.needs(found, kept, TARGET)
        batches.stretches(found, kept, needed, small=32 << 10, small_compressed=8 << 10)

    indexed = count / best(lambda: batches.index(data)) / 1e6
    yield Figure(what="index, checksums checked", value=indexed, unit="M batches/s", target=10)
    yield Figure(what="index, keep, needs, stretches", value=count / best(decide) / 1e6, unit="M batches/s")
    merged = count / best(lambda: batches.merge([run], TARGET, STAMP)) / 1e6
    yield Figure(what="merge of one-record batches of 100 B", value=merged, unit="M records/s", target=5)
    flow = batches.Provenance(source="MkU3OEVBNTcwNTJENDM2Qk", target="kU3OEVBNTcwNTJENDM2QkM")
    marked = count / best(lambda: batches.mark(run.indexed, run.kept, flow)) / 1e6
    yield Figure(what="provenance headers in them", value=marked, unit="M records/s")


def old_messages() -> Iterator[Figure]:
    """A mebibyte of plain messages of magic 1 of 100 B: indexed and made into one batch."""
    data, count = bytearray(), 7000
    for offset in range(count):
        body = struct.pack(">bbqii", 1, 0, 1_700_000_000_000 + offset, -1, 100) + bytes(100)
        data += struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body
    converted = count / best(lambda: list(batches.merge_all(run_of(data), TARGET, STAMP))) / 1e6
    yield Figure(what="old messages of 100 B, checked and converted", value=converted, unit="M records/s", target=1)


def large_batches() -> Iterator[Figure]:
    """16 batches of 64 KiB: checked, and rewritten."""
    data = log([bytes(64 << 10)] * 16)
    found = batches.index(data)
    places = list(zip(found.start.tolist(), found.size.tolist(), strict=True))

    def pass_through() -> None:
        batches.index(data)
        for start, size in places:
            batches.rewrite(data, start, size, producer_id=1000, epoch=1, sequence=0)
            data[start : start + 8] = struct.pack(">q", start)  # offsets ascend again for the next round

    pass_through()
    passed = len(data) / best(pass_through) / 1e9
    yield Figure(what="pass through of 64 KiB batches, both checksums", value=passed, unit="GB/s", target=3)


def lone_records() -> Iterator[Figure]:
    """What a fetch answer of one record costs."""
    data = log([bytes(100)])

    def whole() -> None:
        found = batches.index(data)
        kept = batches.keep(found, start_offset=0)
        batches.needs(found, kept, TARGET)
        own = bytearray(data)
        batches.rewrite(own, 0, len(own), producer_id=1000, epoch=1, sequence=0)

    yield Figure(
        what="one record: index, keep, needs, rewrite of a copy", value=best(whole) * 1e6, unit="µs", target=100
    )


def recompression() -> Iterator[Figure]:
    """JSON of about 1 KiB from none to each codec."""
    rng = random.Random(5)
    values = [
        json.dumps({f"field{n}": rng.choice(["yes", "no", rng.random(), rng.randrange(10**6)]) for n in range(45)})
        for _ in range(500)
    ]
    run = run_of(log([value.encode() for value in values]))
    size = sum(len(value) for value in values)
    for codec in batches.Codec:
        target = batches.TargetTopic(log_append_time=False, max_message_bytes=8 * MIB, codec=codec)
        took = best(lambda target=target: batches.merge([run], target, STAMP))  # type: ignore[misc]  # a default
        wanted = 150 if codec is batches.Codec.ZSTD else None
        name = f"JSON of 1 KiB, none to {codec.name.lower()}"
        yield Figure(what=name, value=size / took / 1e6, unit="MB/s", target=wanted)


def columns() -> Iterator[Figure]:
    """Batches of 64 KiB with records of 100 B, to an Arrow table and back."""
    import pyarrow as pa  # a worker that copies does without it

    count = 60_000
    times = range(1_700_000_000_000, 1_700_000_000_000 + count)
    source = pa.table({"timestamp": times, "value": [bytes(100)] * count})
    made = batches.encode(source, batch_size=64 << 10)
    data = bytearray()
    for each in made:
        data += struct.pack(">q", each.first_row) + each.batch[8:]  # one log; the checksum does not cover the offset
    found = batches.index(data)
    table = batches.decode(found)
    decoded = count / best(lambda: batches.decode(found)) / 1e6
    yield Figure(what="decode of records of 100 B to columns", value=decoded, unit="M records/s", target=3)
    encoded = count / best(lambda: batches.encode(table)) / 1e6
    yield Figure(what="encode of columns to records of 100 B", value=encoded, unit="M records/s", target=2)


def process() -> Iterator[Figure]:
    """What loading it all costs a worker."""
    yield Figure(what="import and load of the kernels", value=LOADED_S * 1e3, unit="ms", target=300)
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  a file of the kernel
        (memory,) = (int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    yield Figure(what="memory of this process", value=memory / 1024, unit="MiB")


def figures() -> list[Figure]:
    """All of them; takes some four seconds."""
    parts = (process, small_batches, old_messages, large_batches, lone_records, recompression, columns)
    return [figure for part in parts for figure in part()]


def main() -> None:
    """Prints the table, or JSON."""
    found = figures()
    if "--json" in sys.argv:
        print(json.dumps([asdict(figure) | {"met": figure.met} for figure in found]))
        return
    for figure in found:
        target = "" if figure.target is None else f"   target {figure.target:g}"
        print(f"{figure.what:52}{figure.value:10.2f} {figure.unit:12}{target}")


if __name__ == "__main__":
    main()

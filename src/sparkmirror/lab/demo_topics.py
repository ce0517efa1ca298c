"""What the demo mirrors: six topics as six kinds of applications would fill them.

Together: keys and none, headers (repeated ones and null ones too), null values, empty keys and values, timestamps given
by the application, all five codecs, both producers, transactions of which one aborts, a topic with settings of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.lab.producers import Headers, Record

RECORDS = 200_000
HOUR_MS = 3_600_000


class Client(Enum):
    """Who writes a topic."""

    JAVA = "Kafka's own"
    LIBRDKAFKA = "librdkafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTopic:
    """One topic of the demo.

    Attributes:
        name: of the topic.
        partitions: how many.
        client: who writes it.
        codec: ``compression.type`` of its producer.
        share: its records, of RECORDS in all.
        holds: what is special about it, for people.
        record: makes the record of a number, from 0 on.
        settings: of the topic.
        transactions: written as one committed and one aborted transaction.
    """

    name: str
    partitions: int
    client: Client
    codec: str
    share: int
    holds: str
    record: Callable[[int], Record]
    settings: Mapping[str, str] = field(default_factory=dict)
    transactions: bool = False

    def records(self, first: int, end: int) -> Iterator[Record]:
        """Yields the records of these numbers, ``end`` excluded."""
        return map(self.record, range(first, end))


def _order(number: int) -> Record:
    value = {
        "order": number,
        "customer": number * 7919 % 50_000,
        "items": [number % 97, number % 89],
        "total": number % 9_973,
    }
    headers: Headers = (
        ("trace", f"{number * 2654435761 % 2**32:08x}".encode()),
        ("source", b"web" if number % 3 else b"app"),
    )
    return Record(f"customer-{number * 7919 % 50_000}".encode(), json.dumps(value).encode(), headers)


def _click(number: int) -> Record:
    return Record(None, f"{number},/products/{number * 31 % 4_001},{number * 17 % 1_280}x{number % 720}".encode())


def _reading(number: int) -> Record:
    taken_ms = int(time.time() * 1_000) - HOUR_MS + number % HOUR_MS
    return Record(f"sensor-{number % 250}".encode(), number.to_bytes(8, "big") * 4, timestamp_ms=taken_ms)


def _profile(number: int) -> Record:
    left = number % 9 == 0
    return Record(
        f"user-{number}".encode(), None if left else json.dumps({"user": number, "plan": number % 4}).encode()
    )


_AUDIT_HEADERS: tuple[Headers, ...] = (
    (("actor", b"deploy"), ("tag", b"blue"), ("tag", b"green")),
    (("actor", b"cron"), ("comment", None)),
    (("actor", b"admin"), ("signature", bytes(range(64)))),
    (),
)


def _audit(number: int) -> Record:
    value = b"" if number % 50 == 0 else f"event {number}: configuration changed".encode() * (1 + number % 5)
    return Record(b"" if number % 10 == 0 else b"audit", value, _AUDIT_HEADERS[number % len(_AUDIT_HEADERS)])


def _payment(number: int) -> Record:
    value = json.dumps({"payment": number, "cents": number * 37 % 100_000}).encode()
    return Record(f"account-{number % 500}".encode(), value, (("currency", b"EUR"),))


TOPICS = (
    DemoTopic(
        name="orders",
        partitions=6,
        client=Client.LIBRDKAFKA,
        codec="zstd",
        share=80_000,
        holds="keys, headers",
        record=_order,
        settings={"retention.ms": "172800000"},
    ),
    DemoTopic(
        name="clicks",
        partitions=4,
        client=Client.LIBRDKAFKA,
        codec="lz4",
        share=74_000,
        holds="no keys",
        record=_click,
    ),
    DemoTopic(
        name="readings",
        partitions=3,
        client=Client.LIBRDKAFKA,
        codec="none",
        share=20_000,
        holds="own timestamps",
        record=_reading,
    ),
    DemoTopic(
        name="profiles",
        partitions=2,
        client=Client.JAVA,
        codec="snappy",
        share=12_000,
        holds="null values, compacted",
        record=_profile,
        settings={"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"},
    ),
    DemoTopic(
        name="audit",
        partitions=1,
        client=Client.JAVA,
        codec="gzip",
        share=12_000,
        holds="null headers, empty values",
        record=_audit,
    ),
    DemoTopic(
        name="payments",
        partitions=2,
        client=Client.JAVA,
        codec="zstd",
        share=2_000,
        holds="transactions, one aborted",
        record=_payment,
        transactions=True,
    ),
)
assert sum(topic.share for topic in TOPICS) == RECORDS

"""Two consumers that others wrote, behind one face: Kafka's own (Java, through Py4J) and librdkafka.

They show all that an application can see of a record, its offset and the type of its timestamp included. For topics
that fit into memory and are not being written; the referee compares large ones, and those that grow.

Java's records come over as the text that ``ConsumerRecord.toString`` makes of them, a poll and partition at a time: a
call for each field of each record would take milliseconds. The text is exact. Keys and values are decoded as
ISO-8859-1, which makes a character of each byte, and their sizes stand before them, so that no byte of theirs is taken
for the end; a size of -1 is null. Only a header's name has no size before it: it must not hold ``, value = ``.

Invariant: who reads has everything in time, or raises LabError.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from sparkmirror.errors import LabError
from sparkmirror.lab.producers import Headers
from sparkmirror.spark.gateway import Gateway, JavaFailure

TIMEOUT_S = 60.0
POLL_MS = 100
AT_ONCE = 10_000
ERRORS_ONLY = 3
SHOWN = 80

_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""As Java calls them, in the order of librdkafka's numbers."""

_STRING = "org.apache.kafka.common.serialization.StringDeserializer"
_HEAD = re.compile(
    r"[\[ ]ConsumerRecord\(topic = [\w.-]+, partition = \d+, leaderEpoch = \w+, offset = (\d+), (\w+) = (-?\d+), "
    r"(?:deliveryCount = \w+, )?serialized key size = (-?\d+), serialized value size = (-?\d+), "
    r"headers = RecordHeaders\(headers = \["
)
_HEADER = re.compile(r"(?:, )?RecordHeader\(key = (.*?), value = (?:(null)|\[([-\d, ]*)\])\)", re.DOTALL)
_AFTER_HEADERS = re.compile(r"\], isReadOnly = \w+\), key = ")
_BEFORE_VALUE = re.compile(", value = ")
_AFTER_VALUE = re.compile(r"\)[,\]]")


class Seen(NamedTuple):
    """A record as a reader shows it; no headers and an empty list of them are one."""

    offset: int
    timestamp_type: str
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

Logs: TypeAlias = dict[Place, list[Seen]]


def read_with_librdkafka(servers: str, topics: Iterable[str], *, timeout_s: float = TIMEOUT_S) -> Logs:
    """Reads topics from their first offset to their end, read_committed, with librdkafka.

    Raises:
        LabError: a topic is not there, the cluster answers with an error, or not in time.
    """
    deadline = time.monotonic() + timeout_s
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "sparkmirror-reader",  # librdkafka wants one; no group is joined
            "log_level": ERRORS_ONLY,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": POLL_MS,
        }
    )
    try:
        known = consumer.list_topics(timeout=timeout_s).topics
        logs: Logs = {(topic, number): [] for topic in topics for number in _partitions(known, topic, servers)}
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic, number in logs])
        waiting = set(logs)
        while waiting:
            messages = consumer.consume(AT_ONCE, timeout=POLL_MS / 1000)
            for message in messages:
                _take(message, logs, waiting)
            _in_time(deadline, "librdkafka", waiting)
    except KafkaException as error:
        raise LabError(f"librdkafka on {servers}: {error}") from error
    finally:
        consumer.close()
    return logs


def _partitions(known: Mapping[str, Any], topic: str, servers: str) -> Iterable[int]:
    if topic not in known:
        raise LabError(f"{servers}: there is no topic {topic}")
    return sorted(known[topic].partitions)


def _take(message: Message, logs: Logs, waiting: set[Place]) -> None:
    place: Any = message.topic(), message.partition()
    error = message.error()
    if error is None:
        kind, timestamp = message.timestamp()
        headers: Any = message.headers() or ()
        offset: Any = message.offset()
        logs[place].append(Seen(offset, _TYPES[kind], timestamp, message.key(), message.value(), tuple(headers)))
    elif error.code() == KafkaError._PARTITION_EOF:
        waiting.discard(place)
    else:
        raise LabError(f"librdkafka, {place[0]} partition {place[1]}: {error}")


def read_with_java(gateway: Gateway, servers: str, topics: Iterable[str], *, timeout_s: float = TIMEOUT_S) -> Logs:
    """Reads topics from their first offset to their end, read_committed, with Kafka's own consumer.

    Args:
        gateway: a JVM that has Kafka's client jars.
        servers: bootstrap servers.
        topics: their names.
        timeout_s: for everything.

    Raises:
        LabError: a topic is not there, Java throws, or the end is not reached in time.
    """
    deadline = time.monotonic() + timeout_s
    properties = gateway.jvm.java.util.Properties()
    settings = {
        "bootstrap.servers": servers,
        "isolation.level": "read_committed",
        "key.deserializer": _STRING,
        "value.deserializer": _STRING,
        "deserializer.encoding": "ISO-8859-1",
        "auto.offset.reset": "none",
        "max.poll.records": str(AT_ONCE),
    }
    for key, value in settings.items():
        properties.setProperty(key, value)
    try:
        consumer = gateway.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties)
        try:
            return _java_logs(gateway.jvm, consumer, _java_places(gateway.jvm, consumer, servers, topics), deadline)
        finally:
            consumer.close()
    except JavaFailure as failure:
        raise LabError(f"Kafka's consumer on {servers}: {failure.java_exception}") from failure


def _java_places(jvm: Any, consumer: Any, servers: str, topics: Iterable[str]) -> dict[Place, Any]:
    known, places = consumer.listTopics(), {}
    for topic in topics:
        if topic not in known:
            raise LabError(f"{servers}: there is no topic {topic}")
        for number in sorted(info.partition() for info in known[topic]):
            places[topic, number] = jvm.org.apache.kafka.common.TopicPartition(topic, number)
    return places


def _java_logs(jvm: Any, consumer: Any, places: Mapping[Place, Any], deadline: float) -> Logs:
    everything = jvm.java.util.ArrayList()
    for java_place in places.values():
        everything.append(java_place)
    consumer.assign(everything)
    consumer.seekToBeginning(everything)
    ends, pause = consumer.endOffsets(everything), jvm.java.time.Duration.ofMillis(POLL_MS)
    logs: Logs = {place: [] for place in places}
    waiting = {place: ends[java_place] for place, java_place in places.items()}
    while waiting:
        answer = consumer.poll(pause)
        for place, end in tuple(waiting.items()):
            logs[place] += records_in(jvm.java.util.Objects.toString(answer.records(places[place])))
            if consumer.position(places[place]) >= end:
                del waiting[place]
        _in_time(deadline, "Kafka's consumer", waiting)
    return logs


def _in_time(deadline: float, who: str, waiting: Collection[Place]) -> None:
    if waiting and time.monotonic() > deadline:
        raise LabError(f"{who}: not read to the end in time: {sorted(waiting)}")


def records_in(text: str) -> list[Seen]:
    """Parses what Java prints for a list of ``ConsumerRecord[String, String]`` whose strings are ISO-8859-1.

    Raises:
        LabError: it is not of that form.
    """
    records: list[Seen] = []
    at = 0
    while at < len(text) and text != "[]":
        head = _expect(_HEAD, text, at)
        headers, at = _headers(text, head.end())
        key, at = _sized(text, _expect(_AFTER_HEADERS, text, at).end(), int(head[4]))
        value, at = _sized(text, _expect(_BEFORE_VALUE, text, at).end(), int(head[5]))
        at = _expect(_AFTER_VALUE, text, at).end()
        records.append(Seen(int(head[1]), head[2], int(head[3]), key, value, headers))
    return records


def _headers(text: str, at: int) -> tuple[Headers, int]:
    headers: list[tuple[str, bytes | None]] = []
    while match := _HEADER.match(text, at):
        name, null, numbers = match.groups()
        value = None if null else bytes(int(number) & 0xFF for number in numbers.split(", ") if number)
        headers.append((name, value))
        at = match.end()
    return tuple(headers), at


def _sized(text: str, at: int, size: int) -> tuple[bytes | None, int]:
    if size < 0:
        return None, at + len("null")
    return text[at : at + size].encode("latin-1"), at + size


def _expect(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise LabError(f"Java's text of records is not of the expected form at {text[at : at + SHOWN]!r}")
    return match

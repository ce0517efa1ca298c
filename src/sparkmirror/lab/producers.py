"""Two producers that others wrote, behind one face: Kafka's own (Java, through Py4J) and librdkafka.

What they write is what real applications write, and none of it is sparkmirror's code. Slow by design where it does
not matter: a record costs Kafka's producer some 0.3 ms here, since every call crosses from Python to Java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sparkmirror.errors import LabError
from sparkmirror.spark.gateway import Gateway, JavaFailure

ACKNOWLEDGED_S = 60.0
ERRORS_ONLY = 3
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What an application hands to a producer. A timestamp of None is now; librdkafka takes 0 for now too.

    A partition of None is chosen by the producer.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class RecordWriter(Protocol):
    """What both producers can do. Every method raises LabError when a record was not taken or not acknowledged."""

    def write(self, topic: str, record: Record) -> None:
        """Hands one record over, without waiting."""

    def flush(self) -> None:
        """Waits until everything is acknowledged."""

    def close(self) -> None:
        """Closes it; nothing may be unacknowledged."""


class JavaProducer:
    """Kafka's own producer.

    Args:
        gateway: a JVM that has Kafka's client jars.
        servers: bootstrap servers.
        settings: further producer settings, such as ``compression.type`` or ``transactional.id``.
    """

    def __init__(self, gateway: Gateway, servers: str, settings: dict[str, str]) -> None:
        kafka = gateway.jvm.org.apache.kafka
        self._record = kafka.clients.producer.ProducerRecord
        self._headers = kafka.common.header.internals.RecordHeaders
        self._known_headers: dict[Headers, Any] = {}
        properties = gateway.jvm.java.util.Properties()
        serializers = {"key.serializer": _BYTES, "value.serializer": _BYTES}
        for key, value in ({"bootstrap.servers": servers, "linger.ms": "20"} | serializers | settings).items():
            properties.setProperty(key, value)
        self._last: Any = None
        self._producer = _java(kafka.clients.producer.KafkaProducer, properties)
        if "transactional.id" in settings:
            _java(self._producer.initTransactions)

    def begin(self) -> None:
        """Begins a transaction."""
        _java(self._producer.beginTransaction)

    def commit(self) -> None:
        """Commits the transaction."""
        _java(self._producer.commitTransaction)

    def abort(self) -> None:
        """Aborts the transaction; its records have been sent to the broker before, so that they lie in the log."""
        _java(self._producer.flush)
        _java(self._producer.abortTransaction)

    def write(self, topic: str, record: Record) -> None:
        """Hands one record over, without waiting."""
        headers = self._known_headers.get(record.headers)
        if headers is None:
            headers = self._known_headers[record.headers] = self._headers()
            for name, value in record.headers:
                headers.add(name, value)
        whole = self._record(topic, record.partition, record.timestamp_ms, record.key, record.value, headers)
        self._last = _java(self._producer.send, whole)

    def flush(self) -> None:
        """Waits until everything is acknowledged."""
        _java(self._producer.flush)
        if self._last is not None:
            _java(self._last.get)

    def close(self) -> None:
        """Closes it."""
        _java(self._producer.close)


class LibrdkafkaProducer:
    """librdkafka's producer, idempotent.

    Args:
        servers: bootstrap servers.
        settings: further settings of librdkafka, such as ``compression.type``.
    """

    def __init__(self, servers: str, settings: dict[str, str]) -> None:
        self._failed = ""
        given = {"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True, "log_level": ERRORS_ONLY}
        self._producer = Producer(given | settings)

    def write(self, topic: str, record: Record) -> None:
        """Hands one record over; waits only when its queue is full."""
        given: dict[str, Any] = {"key": record.key, "value": record.value, "headers": list(record.headers)}
        if record.timestamp_ms is not None:
            given["timestamp"] = record.timestamp_ms
        if record.partition is not None:
            given["partition"] = record.partition
        try:
            try:
                self._producer.produce(topic, on_delivery=self._delivered, **given)
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(ACKNOWLEDGED_S)
                self._producer.produce(topic, on_delivery=self._delivered, **given)
        except (KafkaException, BufferError) as error:
            raise LabError(f"librdkafka did not take a record for topic {topic}: {error}") from error

    def flush(self) -> None:
        """Waits until everything is acknowledged."""
        left = self._producer.flush(ACKNOWLEDGED_S)
        if left or self._failed:
            raise LabError(f"librdkafka: {left} records were not acknowledged in {ACKNOWLEDGED_S:.0f} s {self._failed}")

    def close(self) -> None:
        """Closes it."""
        self._producer.close()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed = str(error)


def _java(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls Java; what it throws becomes a LabError with Java's own words."""
    try:
        return call(*arguments)
    except JavaFailure as failure:
        raise LabError(f"Kafka's producer: {failure.java_exception}") from failure

"""Answers of brokers are decoded as Kafka's Java client decodes them: what does not fit its schema is refused.

kafka-python makes a decoder of each message when it needs it first, and its decoders believe what they read. Here they
are made with checks, since a broker that is broken, or none, may send anything:

- a field without a value where the schema has none of the kind (`nullableVersions`) is refused, as Java does. Who
  reads an answer need not ask for it;
- what a length takes from behind the end of the frame is refused; kafka-python cuts texts and bytes short;
- a variable-length number has five bytes at most, and tagged fields are read where they lie. kafka-python takes any
  number of bytes, and copies the rest of the frame for each struct with tags: with both, the time that a frame takes
  grows with the square of its length, and one of a few megabytes stops all connections of the process for minutes;
- an array with a negative length is refused, and only -1 is none;
- all arrays of an answer together have `MOST_ITEMS` items at most, of which `MOST_STRUCTS` are structures. One of a few
  bytes takes microseconds and hundreds of bytes of memory, so an answer of nothing but empty ones would stop the loop
  for minutes. Who may be answered with more asks for less at once;
- an answer to Metadata names `MOST_BROKERS` brokers and `MOST_PARTITIONS` partitions at most, and not many more topics
  than were asked about: a topic of thirty bytes takes a hundred times as long as a number, a partition thirty times;
- tagged fields come with ascending tags, as for Java. Each counts as `TAG_ITEMS` of these items, one that is known as
  one more for each of its bytes, since its own arrays are not counted; the head of an answer has `HEAD_ITEMS`.

Reference: ``kafka.protocol.schemas.fields`` of kafka-python 3; ``ByteUtils.readUnsignedVarint`` and
``org.apache.kafka.common.protocol.types.TaggedFields`` of Kafka.
"""

from __future__ import annotations

import re
from typing import Any

from kafka.protocol.schemas.fields.array import ArrayField
from kafka.protocol.schemas.fields.codecs.tagged_fields import TaggedFields
from kafka.protocol.schemas.fields.codecs.types import Bytes, String, UnsignedVarInt32
from kafka.protocol.schemas.fields.simple import SimpleField
from kafka.protocol.schemas.fields.struct import StructField
from kafka.protocol.schemas.fields.struct_array import StructArrayField

MOST_ITEMS = 2_000_000
TAG_ITEMS, HEAD_ITEMS = 4, 1_000
MOST_BROKERS = 2_000
"""Of a cluster; the largest have some hundreds."""

MORE_TOPICS = 1_000
"""That an answer to Metadata may name beyond those that were asked about; brokers other than Kafka's may name some."""


MOST_PARTITIONS = 300_000
"""Of all topics of an answer to Metadata; of three replicas each, `MOST_ITEMS` are fewer."""

MOST_STRUCTS = 2 * MOST_PARTITIONS
"""Of any kind: topics of one partition each; offsets of fifty groups in 12,000 partitions each. They take up to 250 MB
and some seconds, the members of groups most."""

_BOUNDS = {
    "MetadataResponseBroker": ("_brokers", f"more than {MOST_BROKERS} brokers are named"),
    "MetadataResponseTopic": ("_topics", "more topics are named than were asked about"),
    "MetadataResponsePartition": ("_partitions", f"more than {MOST_PARTITIONS} partitions are named"),
}
"""By what an array holds: the variable with how many more there may be, and what is said of one too many."""

_OF_ITEMS = ("_items", f"more than {MOST_ITEMS} items")
_OF_STRUCTS = ("_structs", f"more than {MOST_STRUCTS} structures")

_MESSAGE = "obj"
"""The variable of the whole message in a decoder that kafka-python makes."""

_HEAD, _BOUNDED_HEAD = "def _decode(data, pos):", f"def _decode(data, pos, _topics={MOST_ITEMS}):"


class Frame:
    """What the decoders of kafka-python read from: a buffer with a position, whose rest is a view."""

    __slots__ = ("_at", "_view")

    def __init__(self, buffer: bytearray | memoryview, at: int = 0) -> None:
        self._view = memoryview(buffer)
        self._at = at

    def read(self, count: int | None = None) -> memoryview | bytes:
        """The next bytes; all that is left as a view."""
        begin = self._at
        if count is None:
            self._at = len(self._view)
            return self._view[begin:]
        self._at = min(begin + count, len(self._view))
        return bytes(self._view[begin : self._at])

    def seek(self, at: int) -> None:
        """Goes to a position."""
        self._at = at

    def tags(self, fields: Any, version: int | None) -> dict[str, Any]:
        """The tagged fields of the head of an answer."""
        known, self._at, _ = _tagged(fields, self._view, self._at, version, HEAD_ITEMS)
        return known

    def tell(self) -> int:
        """The position."""
        return self._at


def decode(kind: Any, frame: Frame, topics: int | None) -> Any:
    """The body of an answer, as ``decode`` of its class gives it, which some classes have their own way for.

    Args:
        kind: the class of the answer, of its version.
        frame: behind the head.
        topics: how many were asked about; None where the answer may tell about any number.

    Raises:
        Exception: of any kind, where the answer does not fit.
    """
    if topics is None:
        return kind.decode(frame)
    version = kind._class_version
    flexible = kind.flexible_version_q(version)
    decoder = kind._struct.compiled_decode_from(version, compact=flexible, tagged=flexible, data_class=kind[None])
    found, _ = decoder(memoryview(frame.read()), 0, topics + MORE_TOPICS)
    return found


def install() -> None:
    """Has kafka-python make its decoders with these checks. Those that it has made stay as they are."""
    UnsignedVarInt32.emit_decode_from = _emit_varint
    TaggedFields.decode = _of_frames(TaggedFields.decode)
    StructField._emit_tagged_decode = _emit_tags
    StructField.emit_decode_from = _whole(StructField.emit_decode_from)
    for kind in (ArrayField, StructArrayField):
        kind.emit_decode_from = _counted(kind.emit_decode_from)
    for kind in (SimpleField, ArrayField, StructArrayField):
        kind.emit_decode_from = _present(kind.emit_decode_from)


def _emit_varint(ctx: Any, var_name: str, indent: str) -> None:
    byte, shift = ctx.next_var("b"), ctx.next_var("sh")
    ctx.emit(indent, f"{var_name} = {shift} = 0")
    ctx.emit(indent, "while True:")
    ctx.emit(indent, f"    {byte} = data[pos]")
    ctx.emit(indent, "    pos += 1")
    ctx.emit(indent, f"    {var_name} |= ({byte} & 0x7f) << {shift}")
    ctx.emit(indent, f"    if {byte} < 0x80: break")
    ctx.emit(indent, f"    {shift} += 7")
    ctx.emit(indent, f"    if {shift} > 28: raise ValueError('a number of more than five bytes')")


def _emit_tags(field: Any, ctx: Any, var_name: str, indent: str, version: int) -> None:
    tags = ctx.next_var("tf")
    ctx.globs[tags], ctx.globs["_read_tags"] = field.tagged_fields(version), _read_tags
    ctx.emit(indent, f"pos, _items = _read_tags({tags}, {var_name}, data, pos, {version}, _items)")


def _read_tags(fields: Any, item: Any, data: memoryview, at: int, version: int, items: int) -> tuple[int, int]:
    known, at, items = _tagged(fields, data, at, version, items)
    for name, value in known.items():
        item.tags = (item.tags or set()) | {name}
        setattr(item, name, value)
    return at, items


def _tagged(fields: Any, data: memoryview, at: int, version: int | None, items: int) -> tuple[dict[str, Any], int, int]:
    """The tagged fields that are known, the position behind all of them, and how many items may come after them."""
    known: dict[str, Any] = {}
    last = -1
    count, at = _varint(data, at)
    items -= TAG_ITEMS * count
    if items < 0:
        raise ValueError(f"more than {MOST_ITEMS} items")
    for _ in range(count):
        tag, at = _varint(data, at)
        size, at = _varint(data, at)
        if tag <= last or at + size > len(data):
            raise ValueError("tagged fields that are out of order or go beyond the end of the answer")
        field = fields._tags.get(tag)  # without one it is a later version's, which nobody here knows
        if field is not None:
            items -= size
            if items < 0:
                raise ValueError(f"more than {MOST_ITEMS} items")
            frame = Frame(data[at : at + size])
            known[field.name] = field.decode(frame, version=version, compact=True, tagged=None)
        last, at = tag, at + size
    return known, at, items


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of variable length, and the position behind it."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            raise ValueError("a number goes beyond the end of the answer")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than five bytes")


def _of_frames(decode: Any) -> Any:
    def decode_bounded(fields: Any, data: Any, version: int | None = None) -> Any:
        return data.tags(fields, version) if isinstance(data, Frame) else decode(fields, data, version=version)

    return decode_bounded


def _whole(emit: Any) -> Any:
    def emit_checked(field: Any, ctx: Any, var_name: str, indent: str, **how: Any) -> None:
        if var_name == _MESSAGE:
            ctx.lines[ctx.lines.index(_HEAD)] = _BOUNDED_HEAD
            ctx.emit(indent, f"_items, _structs = {MOST_ITEMS}, {MOST_STRUCTS}")
            ctx.emit(indent, f"_brokers, _partitions = {MOST_BROKERS}, {MOST_PARTITIONS}")
        emit(field, ctx, var_name, indent, **how)
        if var_name == _MESSAGE:
            ctx.emit(indent, "if pos > len(data): raise ValueError('a length goes beyond the end of the answer')")

    return emit_checked


class _Counting:
    """What code is emitted to: before the loop over the items of an array these are taken from those that may come."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.bounds: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def emit(self, indent: str, line: str) -> None:
        """Emits a line of code."""
        loop = _LOOP.fullmatch(line)
        if loop is not None:
            self._ctx.emit(indent, f"if {loop[1]} < 0: raise ValueError('an array has a negative length')")
            for left, reason in self.bounds:
                self._ctx.emit(indent, f"{left} -= {loop[1]}")
                self._ctx.emit(indent, f"if {left} < 0: raise ValueError('{reason}')")
        self._ctx.emit(indent, line)


_LOOP = re.compile(r"for \w+ in range\((\w+)\):")


def _counted(emit: Any) -> Any:
    def emit_counted(field: Any, ctx: Any, var_name: str, indent: str, **how: Any) -> None:
        counting = ctx if isinstance(ctx, _Counting) else _Counting(ctx)
        counting.bounds = [_OF_ITEMS]
        if isinstance(field, StructArrayField):
            counting.bounds += [each for each in (_BOUNDS.get(field.type_str), _OF_STRUCTS) if each is not None]
        emit(field, counting, var_name, indent, **how)

    return emit_counted


def _present(emit: Any) -> Any:
    def emit_checked(field: Any, ctx: Any, var_name: str, indent: str, **how: Any) -> None:
        emit(field, ctx, var_name, indent, **how)
        kind = getattr(field, "_type", None)
        holds = field.is_array() or kind is Bytes or isinstance(kind, String)
        if holds and not field.nullable_for_version_q(how["version"]):
            ctx.emit(indent, f"if {var_name} is None: raise ValueError('{field.name} has no value')")

    return emit_checked

"""What only the cluster that came back has: records that had not been copied when it went, and where they are kept.

Nobody can take them out of its log: there they lie before what is mirrored back. What is put aside is a copy, for
whoever decides what becomes of them; the flow then goes on behind them, so that they do not come to the other cluster
late.

Where names are kept, what has been mirrored back lies in the same logs, and applications that were not stopped there
may have written between any two of its records.

Invariants: every committed record behind the copy's position that no flow has brought is found, up to the first one
that the flow from there copies on itself; records are kept as readers see them (committed, with key, value, headers and
timestamp). What is found later gets another place, and so does what is kept again after a run that was interrupted,
since the cluster may have lost by then what the first place holds: nothing that was kept is ever deleted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sparkmirror import batches
from sparkmirror.config import FlowConfig
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.private_files import make_private_directory, private_file
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import ConfigEntry, describe_configs
from sparkmirror.kafka.epochs import believed_ends
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import Row, extent, rows
from sparkmirror.kafka.reading import Span, read_up_to
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.source_history import UNDEFINED

FEW = 20
"""Offsets of a range that are read first to see whether a record lies there, and not only markers of transactions."""

RANGES = 20
"""So many ranges of a partition are told apart; of more one is made, in which mirrored records lie too."""

CHUNK = 10_000
"""Offsets that are read at a time."""

TEXT_BYTES = 3 << 18
"""Of a key or a value, which become text at a time: a multiple of three."""

AT_ONCE_BYTES = 4 << 20
"""Of a partition at a time, where records of some producers are looked for."""

ENOUGH_BYTES = 1 << 20
"""Of a partition at a time, where it is enough that there is a record."""

LARGEST = 100 << 20
"""Bytes of a batch, at most: what brokers take in a request by default."""

CONFIGS = (("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1"))
"""Of a topic that keeps records until somebody deletes it."""

EVERY_TIME = (
    ("message.timestamp.type", "CreateTime"),
    ("message.timestamp.before.max.ms", str(sys.maxsize)),
    ("message.timestamp.after.max.ms", str(sys.maxsize)),
    ("message.timestamp.difference.max.ms", str(sys.maxsize)),
)
"""Of one that takes records of whatever time, as they are; brokers know the limits before or since Kafka 3.6."""

LONGEST_NAME, LONGEST_FILE, HASH = 249, 255, 8
"""Of a topic and of a file; and of what tells apart two names that are cut."""


class Divergent(NamedTuple):
    """Offsets of one partition from ``first`` to before ``end``.

    What is found by one comparison is one part, and kept in a place of its own: later ones find more. ``leader_epoch``
    is that of the log when it was found, or -1: while the log has that epoch up to ``end``, it has the records too.
    """

    partition: TopicPartition
    first: int
    end: int
    part: int = 1
    leader_epoch: int = UNDEFINED

    @property
    def row(self) -> list[Any]:
        """For the record."""
        return [*self.partition, self.first, self.end, self.part, self.leader_epoch]

    @staticmethod
    def of(row: Sequence[Any]) -> Divergent:
        """From the record."""
        topic, number, first, end, part, leader_epoch = row
        return Divergent(TopicPartition(topic, number), first, end, part, leader_epoch)


def find(
    positions: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    mirrored: Mapping[TopicPartition, Iterable[Span]],
) -> tuple[Divergent, ...]:
    """Where the cluster that came back has more than was copied, in order. Pure.

    Args:
        positions: up to where its partitions were copied.
        ends: of its partitions now.
        mirrored: the offsets of what has been mirrored back into the very partitions.
    """
    found: list[Divergent] = []
    for partition, position in positions.items():
        whole = Divergent(partition, position, ends.get(partition, position))
        ranges = list(_without(whole, mirrored.get(partition, ())))
        found += ranges if len(ranges) <= RANGES else [ranges[0]._replace(end=ranges[-1].end)]
    return tuple(sorted(found))


def added(found: Sequence[Divergent], known: Sequence[Divergent], part: int) -> tuple[Divergent, ...]:
    """What of ``found`` is not in ``known``, in order, as that part. Pure."""
    spans: dict[TopicPartition, list[Span]] = {}
    for one in known:
        spans.setdefault(one.partition, []).append(Span(one.first, one.end))
    more = (rest for one in found for rest in _without(one, spans.get(one.partition, ())))
    return tuple(one._replace(part=part) for one in more)


def without_lost(found: Sequence[Divergent], lost: Mapping[TopicPartition, int]) -> tuple[Divergent, ...]:
    """What is left of it where logs have lost their ends since, from these offsets on. Pure."""
    return parted_at(found, lost)[0]


def parted_at(
    found: Sequence[Divergent], offsets: Mapping[TopicPartition, int]
) -> tuple[tuple[Divergent, ...], tuple[Divergent, ...]]:
    """What of it lies before an offset of its partition, and what lies there or behind, each in order. Pure."""
    before = (one._replace(end=min(one.end, offsets.get(one.partition, one.end))) for one in found)
    behind = (one._replace(first=max(one.first, offsets.get(one.partition, one.end))) for one in found)
    return tuple(one for one in before if one.first < one.end), tuple(one for one in behind if one.first < one.end)


def _without(whole: Divergent, spans: Iterable[Span]) -> Iterator[Divergent]:
    first = whole.first
    for span in sorted([*spans, Span(whole.end, whole.end)]):
        if first < min(span.first, whole.end):
            yield whole._replace(first=first, end=min(span.first, whole.end))
        first = max(first, span.end)


def with_records(
    cluster: Cluster, found: Sequence[Divergent], without: Collection[int], timeout_ms: int
) -> tuple[Divergent, ...]:
    """Those that have a record.

    Args:
        cluster: that came back.
        found: where it may have more.
        without: producers whose records do not count, since they were mirrored from elsewhere.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: the cluster cannot be read.
    """
    if not found:
        return ()
    kept, rest, size = [], {one: one.first for one in _still_there(cluster, found, timeout_ms)}, FEW
    while rest:  # of each partition one at a time, until there is a record
        now = {one.partition: one for one in reversed(rest)}
        spans = {place: Span(rest[one], min(one.end, rest[one] + size)) for place, one in now.items()}
        read = read_up_to(cluster, spans, extent, timeout_ms, ENOUGH_BYTES, without=without).complete()
        for place, one in now.items():
            rest[one] = read[place].end
            if read[place].records:
                kept.append(one)
            if one in kept or rest[one] == one.end:
                del rest[one]
        size = CHUNK
    return tuple(sorted(kept))


def _still_there(cluster: Cluster, found: Sequence[Divergent], timeout_ms: int) -> list[Divergent]:
    """What the logs have of it still, in order."""
    places = sorted({one.partition for one in found})
    oldest = admin.list_offsets(cluster, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms) if places else {}
    left = (one._replace(first=max(one.first, oldest[one.partition])) for one in found)
    return [one for one in left if one.first < one.end]


def first_of(
    cluster: Cluster, found: Sequence[Divergent], producers: Collection[int], timeout_ms: int
) -> dict[TopicPartition, int]:
    """Where in each partition the first record of some producers lies, if one lies in what was found.

    Args:
        cluster: that came back.
        found: where it has more.
        producers: whose records count.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: the cluster cannot be read.
    """
    if not producers:
        return {}
    firsts: dict[TopicPartition, int] = {}
    rest = {one: one.first for one in _still_there(cluster, found, timeout_ms)}
    while rest:  # of each partition one at a time, until there is a record
        now = {one.partition: one for one in reversed(rest)}
        spans = {place: Span(rest[one], one.end) for place, one in now.items()}
        only = dict.fromkeys(spans, producers)
        read = read_up_to(cluster, spans, extent, timeout_ms, AT_ONCE_BYTES, only=only).complete()
        firsts |= {place: part.records[0].first for place, part in read.items() if part.records}
        rest |= {one: read[place].end for place, one in now.items()}
        rest = {one: at for one, at in rest.items() if at < one.end and one.partition not in firsts}
    return firsts


def lost_since(cluster: Cluster, found: Sequence[Divergent], timeout_ms: int) -> dict[TopicPartition, int]:
    """Which logs have lost the end of what was found in them, and up to which offset they are still those.

    A leader that does not answer, or whose log had no epoch then, is not among them. Of a log that no longer knows the
    epoch, since it went back as a whole, nothing is believed: offset 0.

    Args:
        cluster: that came back.
        found: what was found in its logs.
        timeout_ms: of each question.
    """
    last = {one.partition: one for one in sorted(found) if one.leader_epoch != UNDEFINED}
    asked = {place: one.leader_epoch for place, one in last.items()}
    answers = believed_ends(cluster, asked, timeout_ms).found
    return {
        place: max(0, end.end)
        for place, end in answers.items()
        if end.epoch != asked[place] or end.end < last[place].end
    }


def kept_as(topic: str, moment_ms: int, part: int = 1) -> str:
    """The name of the topic that keeps what diverged; flows leave such names out, see ``naming.topics.DIVERGENT``.

    It begins with the name of the topic, as much of it as there is room for.
    """
    suffix = f".divergent.{time.strftime('%Y%m%d-%H%M%S', time.gmtime(moment_ms / 1000))}"
    suffix += "" if part == 1 else f"-{part}"
    return _cut(topic, LONGEST_NAME - len(suffix)) + suffix


def _cut(name: str, most: int) -> str:
    """A name, or as much of it as there is room for, with what tells it apart from others that begin so."""
    if len(name) <= most:
        return name
    return f"{name[: most - HASH - 1]}-{hashlib.sha256(name.encode()).hexdigest()[:HASH]}"


def exported_as(partition: TopicPartition, stem: str) -> str:
    """The name of the file that keeps what diverged of a partition."""
    before, after = f"{stem}.", ".jsonl"
    return before + _cut(str(partition), LONGEST_FILE - len(before) - len(after)) + after


def configs_of(topic: Mapping[str, ConfigEntry]) -> tuple[tuple[str, str], ...]:
    """The properties of the topic that keeps what another one has. Pure.

    Args:
        topic: the properties of that one: all that its brokers know; none where this user may not read them.
    """
    own = topic.get("max.message.bytes")
    largest = LARGEST if own is None or own.value is None else max(LARGEST, int(own.value))
    times = (each for each in EVERY_TIME if each[0] in topic)
    return (*CONFIGS, ("max.message.bytes", str(largest)), *times)


def keep_in_topics(
    reading: Cluster,
    writing: Cluster,
    flow: FlowConfig,
    found: Sequence[Divergent],
    names: Mapping[str, str],
    without: Collection[int],
) -> int:
    """Copies the records to topics beside theirs, and gives how many there are.

    Args:
        reading: the cluster, as whoever may read its topics.
        writing: the same, as whoever may make topics and write to them.
        flow: that writes there.
        found: what is copied, in order.
        names: of the topics that keep it, by topic.
        without: producers whose records are left out.

    Raises:
        SparkmirrorError: the cluster cannot be read or written to.
    """
    timeout_ms = flow.admin_timeout_ms
    known = admin.list_topics(reading, sorted(names), timeout_ms)
    _make(
        writing, {topic: len(known[topic].partitions) for topic in {one.partition.topic for one in found}}, names, flow
    )
    copied = 0
    for one in found:
        journal = Journal(writing, names[one.partition.topic], one.partition.partition)
        for table in _tables(reading, one, timeout_ms, without):
            for made in batches.encode(table, max_message_bytes=LARGEST):
                writing.run(journal.append_batch, made.batch, timeout_ms)
            copied += table.num_rows
    return copied


def export(
    cluster: Cluster,
    flow: FlowConfig,
    found: Sequence[Divergent],
    directory: Path,
    stem: str,
    without: Collection[int],
) -> int:
    """Writes the records to files that only this user reads, a JSON object in each line; gives how many there are.

    There is one file for each partition.

    Keys, values and values of headers are in base64, null where they are null; of more than `MANY_HEADERS` there is
    ``packed_headers`` instead, all of them in base64 as they lie in the record.

    Raises:
        SparkmirrorError: the cluster cannot be read, or a file not be written.
    """
    copied = 0
    try:
        make_private_directory(directory)
        for partition, ranges in groupby(found, key=lambda one: one.partition):
            with private_file(directory / exported_as(partition, stem)) as file:
                for table in (each for one in ranges for each in _tables(cluster, one, flow.admin_timeout_ms, without)):
                    for record in rows(table):
                        file.writelines(_as_json(record))
                    copied += table.num_rows
    except OSError as failure:
        raise SparkmirrorError(f"{directory}: {failure}: name another directory with --report") from failure
    return copied


def _tables(cluster: Cluster, one: Divergent, timeout_ms: int, without: Collection[int]) -> Iterable[Any]:
    """The records as Arrow tables; retention may have taken the first of them."""
    oldest = admin.list_offsets(cluster, [one.partition], OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    first = max(one.first, oldest[one.partition])
    while first < one.end:
        span = Span(first, min(first + CHUNK, one.end))
        found = read_up_to(
            cluster, {one.partition: span}, lambda table: [table], timeout_ms, AT_ONCE_BYTES, without=without
        ).complete()[one.partition]
        yield from (table for table in found.records if table.num_rows)
        first = found.end


def _make(cluster: Cluster, partitions: Mapping[str, int], names: Mapping[str, str], flow: FlowConfig) -> None:
    """Topics that keep what others of so many partitions have, and which are not there yet."""
    timeout_ms = flow.admin_timeout_ms
    described = describe_configs(cluster, sorted(partitions), timeout_ms).found
    new = [
        NewTopic(
            name=names[topic],
            partitions=count,
            replication_factor=flow.replication_factor,
            configs=configs_of(described.get(topic, {})),
        )
        for topic, count in partitions.items()
    ]
    admin.create_topics(cluster, new, timeout_ms).complete()
    wanted = {names[topic]: count for topic, count in partitions.items()}
    admin.wait_for_leaders(cluster, wanted, timeout_ms).complete()


def _as_json(record: Row) -> Iterator[str]:
    """A line, in pieces."""
    yield f'{{"offset": {record.offset}, "timestamp": {record.timestamp}, "key": '
    yield from _text(record.key)
    yield ', "value": '
    yield from _text(record.value)
    if record.packed is not None:
        yield ', "packed_headers": '
        yield from _text(record.packed)
        yield "}\n"
        return
    yield ', "headers": ['
    for number, (key, value) in enumerate(record.headers):
        name = json.dumps(bytes(key).decode(errors="replace"), ensure_ascii=False)
        yield f"{', ' if number else ''}[{name}, "
        yield from _text(value)
        yield "]"
    yield "]}\n"


def _text(part: Any | None) -> Iterator[str]:
    if part is None:
        yield "null"
        return
    yield '"'
    for first in range(0, len(part), TEXT_BYTES):
        yield base64.b64encode(memoryview(part)[first : first + TEXT_BYTES]).decode()
    yield '"'

"""The words that every room shares: names and small frozen values.

Invariants: nothing here does I/O or holds a secret; everything pickles, since values of this module cross from
the driver to the executors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, NewType

Alias = NewType("Alias", str)
"""A cluster's name in the configuration file."""

ClusterId = NewType("ClusterId", str)
"""The identity a Kafka cluster gives itself; two aliases with one cluster id are one cluster."""

Topic = NewType("Topic", str)

NO_OFFSET = -1

MAX_MESSAGE_BYTES = 1_048_588
"""``max.message.bytes`` of a topic where nobody sets it: the most that one of its batches may have."""


_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka has topics with such a name (``org.apache.kafka.common.internals.Topic``)."""
    return bool(_TOPIC_NAME.fullmatch(name)) and name not in (".", "..")


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Copied(NamedTuple):
    """What a run did with a partition so far.

    Attributes:
        records, bytes: that it copied.
        dead_letters: records that it put aside.
        loop_filtered: records that it left out, since the registry of writers says that they came from the target.
    """

    records: int = 0
    bytes: int = 0
    dead_letters: int = 0
    loop_filtered: int = 0


NOTHING = Copied()


class Reached(NamedTuple):
    """How far a target partition's log is known to go: up to the offset ``end``, of which leader epoch the last is."""

    leader_epoch: int = -1
    end: int = NO_OFFSET


UNKNOWN = Reached()


UNKNOWN_SOURCE = (1 << 63) - 1
"""Beyond all source offsets, in the place of one: something may have been copied before, and nothing says up to where.

Earlier releases read it as a record that does not lie before, and go by what they know of the map.
"""


class LastRecord(NamedTuple):
    """The last record of a writer epoch that was acknowledged, and the records that show what a map lacks before it.

    Attributes:
        sequence, source, target: its sequence number, source and target offset.
        first_source, first_target: offsets of the first record of the epoch.
        before_sequence, before_source, before_target: of the last record that an older epoch had put on the target
            when this one began, below where it began; `NO_OFFSET` where there was none, or an earlier release has not
            named it. The source offset is `UNKNOWN_SOURCE` where there may have been one and nothing says which.
    """

    sequence: int = NO_OFFSET
    source: int = NO_OFFSET
    target: int = NO_OFFSET
    first_source: int = NO_OFFSET
    first_target: int = NO_OFFSET
    before_sequence: int = NO_OFFSET
    before_source: int = NO_OFFSET
    before_target: int = NO_OFFSET

    @property
    def first(self) -> tuple[int, int]:
        """Source and target offset of the first record."""
        return (self.first_source, self.first_target)

    @property
    def before(self) -> tuple[int, int, int]:
        """Sequence number, source and target offset of the record of an older epoch."""
        return (self.before_sequence, self.before_source, self.before_target)

    def only_before(self) -> LastRecord:
        """What a new epoch comes after that begins behind this record, or where none was acknowledged."""
        before = self.before if self.sequence == NO_OFFSET else (self.sequence, self.source, self.target)
        return LastRecord(NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET, *before)


NO_RECORD = LastRecord()

UNKNOWN_RECORD = NO_RECORD._replace(before_source=UNKNOWN_SOURCE)


class CopiedBefore(NamedTuple):
    """What MirrorMaker 2 copied of a partition before the flow took it over, by the bounds of that.

    Attributes:
        since, until: source offsets.
        end: where the target ended.
    """

    since: int = NO_OFFSET
    until: int = NO_OFFSET
    end: int = NO_OFFSET


NOTHING_BEFORE = CopiedBefore()


class Began(NamedTuple):
    """Why a writer epoch began where it did, beside where the one before it ended.

    Attributes:
        moved: where an order had it begin, and nothing else was why; `NO_OFFSET` where there was none.
        parted: from which source offset on older epochs hold no more; `NO_OFFSET` where they do.
    """

    moved: int = NO_OFFSET
    parted: int = NO_OFFSET


WENT_ON = Began()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowName:
    """One source to target replication, written ``source->target``."""

    source: Alias
    target: Alias

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def back(self) -> FlowName:
        """The flow the other way."""
        return FlowName(source=self.target, target=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A producer id with the epoch that the coordinator handed out for it (KIP-98, KIP-360)."""

    producer_id: int
    epoch: int

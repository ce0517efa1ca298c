"""What a flow shows of itself, as plain values.

They lie between those who know (the controller, the reader of the internal topics) and those who show (the live
display, ``status``).

Invariants: nothing here is formatted, and what is not known is ``None``, never 0. Rates are per second over the last
few seconds, bytes are those of the batches, spans of time are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.naming import Lineage
from sparkmirror.offsets.duty_records import DutyRound


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """One flow in the process that runs it, at one moment.

    Attributes:
        name: ``source->target``.
        state: the flow's state, as :mod:`sparkmirror.flow.states` names it.
        records_per_s: records acknowledged by the target.
        bytes_per_s: bytes acknowledged by the target.
        lag_records: source end offsets minus positions, over all partitions.
        lag_ms: age of the oldest record that waits, 0 when none waits.
        rpo_ms: age of the recovery point, see ``offsets.recovery``.
        lanes: lanes that run now.
        partitions: partitions that the flow copies.
        events: what the operator should know (gaps, stopped partitions, errors), the newest last.
    """

    name: str
    state: str
    records_per_s: float = 0.0
    bytes_per_s: float = 0.0
    lag_records: int | None = None
    lag_ms: int | None = None
    rpo_ms: int | None = None
    lanes: int = 0
    partitions: int = 0
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStatus:
    """Something that the operator should know, as ``sparkmirror.events`` has it.

    Attributes:
        kind: what it is about, such as ``source-retention``.
        text: for people.
        topic, partition: of the source; "" and ``None`` where it concerns the flow.
        first, last: the offsets concerned, both included.
        time_ms: when, milliseconds since 1970.
    """

    kind: str
    text: str
    topic: str = ""
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    time_ms: int | None = None

    @property
    def place(self) -> str:
        """The partition, or "" for the flow."""
        return f"{self.topic}-{self.partition}" if self.topic else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatus:
    """One partition as the flow's internal topic tells it.

    Attributes:
        topic: the topic on the source.
        partition: its number, the same on both sides.
        target_topic: the topic on the target.
        position: next source offset to copy.
        target_offset: offset on the target of the last record acknowledged.
        source_end: the source's end offset when the progress was published.
        lag_records: source end minus position.
        lag_ms: age of the oldest record that waits, 0 when none waits.
        records_per_s: records acknowledged per second.
        bytes_per_s: bytes acknowledged per second.
        updated_ms: when the progress was published, milliseconds since 1970.
        dead_letters: records that this run put aside, because the target topic cannot hold them.
        loop_filtered: records that this run left out: by the registry of writers they came from the target.
        event: the newest event or error of this partition, or "".
    """

    topic: str
    partition: int
    target_topic: str
    position: int | None = None
    target_offset: int | None = None
    source_end: int | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    updated_ms: int | None = None
    dead_letters: int | None = None
    loop_filtered: int | None = None
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStatus:
    """One flow as its internal topic tells it, from any machine.

    Attributes:
        name: ``source->target``.
        state: the flow's state, or what can be told of it from outside (running, stopped, silent, never started).
        records_per_s: sum over the partitions.
        bytes_per_s: sum over the partitions.
        lag_records: sum over the partitions; ``None`` when one of them is not known, or has not begun.
        lag_ms: the greatest of the partitions; ``None`` when one of them has not begun.
        rpo_ms: age of the recovery point, see ``offsets.recovery``; it grows while nobody tells of the source.
        rpo_records: records that the source had and the target lacked when the driver told last.
        rpo_partition: whose recovery point is the earliest, or "".
        rpo_limit_ms: what ``rpo.limit.ms`` says.
        rpo_passed: whether the recovery point is older than that; ``None`` without a limit.
        updated_ms: when the newest progress was published, milliseconds since 1970.
        dead_letters, loop_filtered: sums over the partitions.
        partitions: each partition, in the order of topic and number.
        events: what the operator should know, of the last seven days, the newest last.
        duties: the newest round of each duty, by name in order.
        target: what the names of the target's topics tell of all flows into it; ``None`` if it cannot be asked.
    """

    name: str
    state: str
    records_per_s: float | None = None
    bytes_per_s: float | None = None
    lag_records: int | None = None
    lag_ms: int | None = None
    rpo_ms: int | None = None
    rpo_records: int | None = None
    rpo_partition: str = ""
    rpo_limit_ms: int | None = None
    rpo_passed: bool | None = None
    updated_ms: int | None = None
    dead_letters: int | None = None
    loop_filtered: int | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    events: tuple[EventStatus, ...] = ()
    duties: tuple[DutyRound, ...] = ()
    target: Lineage | None = None

"""The flow's control topic: how the driver speaks to running lanes, and how one shift hands over to the next.

Keys are JSON arrays, values JSON objects, as on the internal topic; every key but the first begins with the kind
and the run.

    ["run"]                          which run has the flow; lanes of all before it end without sending anything more.
                                     ``generation`` and ``driver`` say which one is the later, see `Announced`
    ["drain", run, shift or "*"]     finish what is in flight, hand over and end
    ["ready", run, shift]            the successor of this shift has started and waits for it
    ["handover", run, shift, part]   where this shift left its partitions; ``parts`` says how many records there are
    ["alive", run, shift]            this shift lives; each second, also when it is idle. ``recovery`` is the earliest
                                     recovery point of its partitions, and whose, once one was published
    ["orders", run, "*"]             topics to leave alone, how fast to copy, what the target asks, see `orders`
    ["lost", run, shift]             this shift may send nothing more and will hand over nothing: its partitions are
                                     taken over

Invariants: a handover is written after everything the shift sent was acknowledged and its progress is on record. What
others write here is passed over: a lane goes by what it has read before, and a shift that gets no handover ends, after
which the driver decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.copy import orders
from sparkmirror.copy.orders import NO_ORDERS, Orders
from sparkmirror.kafka.journal import Entry
from sparkmirror.kafka.producer_ids import NOBODY
from sparkmirror.model import NO_OFFSET, NOTHING, UNKNOWN, Copied, LastRecord, Reached, TopicPartition, Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.json_text import INT32, count, flag, integer, rows, signed, text
from sparkmirror.offsets.recovery import UNKNOWN_MS, RecoveryPoint

RUN_KEY = json.dumps(["run"])
"""Never deleted, so that also a lane that stood still for days reads it."""
EVERY_SHIFT = "*"
PARTITIONS_PER_RECORD = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """That a run has the flow.

    Attributes:
        run: its name.
        generation: of the flow when the run took it.
        driver: by what its driver owned the internal topic then; `NOBODY` from older releases.
    """

    run: str
    generation: int = 0
    driver: Writer = NOBODY

    def is_before(self, other: Announced) -> bool:
        """Whether it is surely of an earlier run: a request that was held up, or left by a topic that lost its end.

        The internal topic and the coordinator count runs, each in a log that may lose its end: both have to say so.
        """
        same = self.driver.producer_id == other.driver.producer_id
        return same and self.driver.epoch < other.driver.epoch and self.generation <= other.generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """One partition of a handover.

    Attributes:
        copied: what the run did with it so far.
        error: why it stands still, or "".
        leader_epoch: of the source's batch left of the position, or of a later one.
        epoch_on_record: the newest leader epoch of the source whose begin is on record, or -1.
        reached: how far the target's log is known to go.
        settled: whether everything that was sent is acknowledged; not so only beside an error.
        recovery_ms: the recovery point, see ``offsets.recovery``.
        copies_end: as in the plan.
    """

    position: int
    sequence: int
    writer: Writer
    opened: bool
    last: LastRecord
    copied: Copied = NOTHING
    error: str = ""
    settled: bool = True
    leader_epoch: int = -1
    epoch_on_record: int = -1
    reached: Reached = UNKNOWN
    recovery_ms: int = UNKNOWN_MS
    copies_end: int = NO_OFFSET


UNANNOUNCED = Announced(run="")


def run_value(one: Announced) -> str:
    """The value that says that a run has the flow."""
    driver = {} if one.driver == NOBODY else {"generation": one.generation, "driver": _ids(one.driver)}
    return json.dumps({"v": 1, "run": one.run} | driver)


def drain_key(run: str, shift: str = EVERY_SHIFT) -> str:
    """The key that tells a shift, or all, to drain."""
    return json.dumps(["drain", run, shift])


def ready_key(run: str, shift: str) -> str:
    """The key that tells a shift that its successor is ready."""
    return json.dumps(["ready", run, shift])


def alive_key(run: str, shift: str) -> str:
    """The key by which a shift says that it lives."""
    return json.dumps(["alive", run, shift])


def alive_value(point: RecoveryPoint | None) -> str:
    """What a shift says beside that it lives."""
    return json.dumps({} if point is None else {"recovery": [point.time_ms, *point.partition]})


def told_alive(value: str) -> RecoveryPoint | None:
    """Reads `alive_value`.

    Raises:
        ValueError: it is none.
    """
    match json_text.read(value):
        case {"recovery": [time_ms, topic, partition]}:
            return RecoveryPoint(signed(time_ms), json_text.place(text(topic), integer(partition, INT32)))
        case {"recovery": _}:
            raise ValueError("no recovery point")
        case dict():
            return None
    raise ValueError("no sign of life")


def told_run(value: str) -> Announced:
    """Reads `run_value`.

    Raises:
        ValueError: it is none.
    """
    match json_text.read(value):
        case {"run": run, "driver": [producer_id, epoch], "generation": generation}:
            driver = Writer(producer_id=integer(producer_id), epoch=integer(epoch, INT32))
            return Announced(run=text(run), generation=integer(generation), driver=driver)
        case {"driver": _}:
            raise ValueError("no driver is named")
        case {"run": run}:
            return Announced(run=text(run))
    raise ValueError("no run is named")


def orders_key(run: str) -> str:
    """The key under which all lanes of a run get their orders."""
    return json.dumps(["orders", run, EVERY_SHIFT])


def lost_key(run: str, shift: str) -> str:
    """The key that tells a shift to end without sending or handing over anything more."""
    return json.dumps(["lost", run, shift])


def spent_keys(run: str, shift: str, partitions: int) -> list[str]:
    """The keys of a shift that has ended and was succeeded, or more: deleting what is not there does no harm."""
    parts = partitions // PARTITIONS_PER_RECORD + 2
    return [ready_key(run, shift), alive_key(run, shift), *(_handover_key(run, shift, part) for part in range(parts))]


def _handover_key(run: str, shift: str, part: int) -> str:
    return json.dumps(["handover", run, shift, part])


def handover_entries(run: str, shift: str, handed: dict[TopicPartition, Handed]) -> list[tuple[str, str]]:
    """The records of one handover."""
    rows = [
        [
            *p,
            h.position,
            h.sequence,
            *_ids(h.writer),
            h.opened,
            h.last,
            h.copied,
            h.error,
            h.settled,
            *_epochs(h),
            h.recovery_ms,
            h.copies_end,
        ]
        for p, h in handed.items()
    ]
    chunks = [rows[i : i + PARTITIONS_PER_RECORD] for i in range(0, len(rows), PARTITIONS_PER_RECORD)] or [[]]
    return [
        (
            _handover_key(run, shift, part),
            json.dumps({"v": 1, "parts": len(chunks), "partitions": chunk}, separators=(",", ":")),
        )
        for part, chunk in enumerate(chunks)
    ]


def _ids(writer: Writer) -> tuple[int, int]:
    return writer.producer_id, writer.epoch


def _epochs(handed: Handed) -> tuple[int, int, Reached]:
    return handed.leader_epoch, handed.epoch_on_record, handed.reached


@dataclass(slots=True)
class ControlState:
    """What the control topic has said to one run.

    Attributes:
        draining: shifts told to drain, `EVERY_SHIFT` for all.
        ready: shifts whose successors wait for them.
        alive: shift → the offset of its newest sign of life.
        lost: shifts that may send nothing more and will hand over nothing.
        newest: the latest run that is known to have the flow; this one to begin with.
        orders: the newest.
        handed: shift → partition → where it was left; complete handovers only.
    """

    run: str
    newest: Announced = UNANNOUNCED
    draining: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    alive: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    orders: Orders = NO_ORDERS
    handed: dict[str, dict[TopicPartition, Handed]] = field(default_factory=dict)
    _parts: dict[str, dict[int, dict[TopicPartition, Handed]]] = field(default_factory=dict)

    def take(self, entries: Iterable[Entry]) -> None:
        """Adds what was read; records for other runs, tombstones and what is not ours are passed over.

        The tombstone of a ``lost`` counts as one: it may be all that compaction left for a lane that stood still.
        """
        for entry in entries:
            with suppress(*json_text.UNREADABLE):
                self._take(entry)

    def _take(self, entry: Entry) -> None:
        if entry.key == RUN_KEY and entry.value is not None:
            named = told_run(entry.value)
            self.newest = self.newest if named.is_before(self.newest) else named
        name = _name(entry.key)
        kind, run, shift = name[:3]
        if run != self.run:
            return
        if kind == "lost":
            self.lost.add(text(shift))
        elif entry.value is not None:
            self._take_value(kind, text(shift), entry, name)

    def _take_value(self, kind: str, shift: str, entry: Entry, name: list[Any]) -> None:
        if kind == "drain":
            self.draining.add(shift)
        elif kind == "ready":
            self.ready.add(shift)
        elif kind == "alive":
            self.alive[shift] = entry.offset
        elif kind == "orders" and entry.value is not None:
            self.orders = orders.read(entry.value)
        elif kind == "handover" and entry.value is not None:
            self._take_handover(shift, count(name[3]), json_text.read(entry.value))

    def must_drain(self, shift: str) -> bool:
        """Whether ``shift`` has been told to end."""
        return shift in self.draining or EVERY_SHIFT in self.draining

    def ended(self, shift: str) -> str:
        """Why ``shift`` may send nothing more, or ""."""
        if self.newest.run not in ("", self.run):
            return f"run {self.newest.run} has the flow now"
        return "the driver heard nothing of it and gave its partitions away" if shift in self.lost else ""

    def _take_handover(self, shift: str, part: int, value: dict[str, Any]) -> None:
        handed, of = dict(map(_read, rows(value["partitions"]))), count(value["parts"])
        parts = self._parts.setdefault(shift, {})
        parts[part] = handed
        if len(parts) == of:
            self.handed[shift] = {place: one for some in parts.values() for place, one in some.items()}
            del self._parts[shift]


def is_ours(key: str) -> bool:
    """Whether a mirror, of this release or a later one, may have written a record with such a key."""
    return key == RUN_KEY or isinstance(_name(key)[0], str)


def _name(key: str) -> list[Any]:
    """The parts of a key; of one that is not ours, parts that match nothing."""
    try:
        name = json_text.read(key)
    except ValueError:
        name = None
    return name if isinstance(name, list) and len(name) >= 3 else [None, None, None]


def _read(row: Sequence[Any]) -> tuple[TopicPartition, Handed]:
    topic, partition, position, sequence, producer_id, epoch, opened, last, copied, error, settled, *more = row
    leader_epoch, on_record, reached, recovery_ms, copies_end = more[:5]
    leader, end = reached
    handed = Handed(
        position=integer(position),
        sequence=integer(sequence),
        writer=Writer(producer_id=integer(producer_id), epoch=integer(epoch, INT32)),
        opened=flag(opened),
        last=LastRecord(*map(integer, rows(last))),
        copied=Copied(*map(integer, rows(copied))),
        error=text(error),
        settled=flag(settled),
        leader_epoch=integer(leader_epoch, INT32),
        epoch_on_record=integer(on_record, INT32),
        reached=Reached(integer(leader, INT32), integer(end)),
        recovery_ms=signed(recovery_ms),
        copies_end=integer(copies_end),
    )
    return TopicPartition(text(topic), integer(partition, INT32)), handed

"""The flow's internal and control topics as the driver uses them: read whole at the start, followed while it runs.

A topic may lose the end of its log. Whoever only reads it reads all of it again then; its owner, which has read what is
gone, and knows it, goes on where the log parts from that.

Invariants: an owner that is not sure to be it any more, since it stood still, asks before it writes; see `ownership`.
Records of others never end the reading: they are passed over (``offsets.foreign``). One of our own that somebody has
overwritten does, once all is read, for whoever has not read before what it said: positions may depend on it.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sparkmirror.errors import FencedError, SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.journal import BATCH_BYTES, Cursor, Entry, Followed, Pair, size_of
from sparkmirror.kafka.liveness import Heard
from sparkmirror.kafka.ownership import Ownership, this_moment
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.foreign import Broken, Flaw, told_of
from sparkmirror.offsets.records import Later, NotOursError, Progress, Record, is_renewed, parse, partition_of
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.writers import KEEP_ALIVE_SECONDS

log = logging.getLogger(__name__)

OWNED_KEY = json_text.write(["owned"])
"""Of a tombstone that brings the new epoch into the log, or shows that it still holds."""

SURE_SECONDS = 10.0
"""So long ago an owner may have been acknowledged that counts as one: the driver writes every three seconds."""

AT_ONCE_SECONDS = 0.25
"""The same right before something that no broker refuses to a former owner."""


class Store:
    """One such topic of a flow, with what it says.

    Args:
        target: the cluster it is on.
        topic: its name.
        timeout_ms: of each exchange.

    Attributes:
        state: what the topic says.
        place: the cluster, and the topic with its partition, for people.
        lost: why this one does not own the topic any more; "" while it does, or never did.
        torn: what of it was gone when it was read last, though it had been read before; "" where nothing ever was.
        heard: when the driver's newest sign of life was written.
        remembers: whether it goes on over records of our own that somebody overwrites from now on: it has read them.
    """

    def __init__(self, target: Cluster, topic: str, timeout_ms: int) -> None:
        self._target = target
        self._journal = IdempotentJournal(target, topic)
        self._timeout_ms = timeout_ms
        self._cursor = Cursor()
        self._elected = -1
        self._noted: dict[TopicPartition, int] = {}
        self._ownership: Ownership | None = None
        self.place = f"cluster {target.alias}, {topic}-0"
        self.lost = ""
        self.torn = ""
        self.heard = Heard()
        self._left: _Left | None = None
        self.remembers = False
        self.state = JournalState()

    def hasten(self, timeout_ms: int) -> None:
        """From here on an exchange takes no longer than that: something has failed, and the same is likely again."""
        self._timeout_ms = min(self._timeout_ms, timeout_ms)

    def own(self, transactional_id: str, renew_seconds: float = KEEP_ALIVE_SECONDS) -> None:
        """Shuts out whoever owned the topic by this name before: what it has written is in the log now, or never is.

        Args:
            transactional_id: the name.
            renew_seconds: how often it is renewed, with what is written then; far more often than
                ``transactional.id.expiration.ms``.

        Raises:
            BrokerError: the target refuses.
            LinkError: the target does not answer.
        """
        self._ownership = Ownership(transactional_id, renew_seconds)
        self._target.run(self._journal.own, self._ownership, self._timeout_ms)
        self.append([(OWNED_KEY, None)])

    @property
    def owner(self) -> Writer:
        """By what it is owned; a later owner of the same name has a greater epoch, or another producer id."""
        return self._journal.writer

    def prove_by_a_write(self) -> None:
        """Sees that this one still owns the topic, whatever was acknowledged last: who took it before is met for sure.

        Raises:
            FencedError: as `prove`.
            BrokerError: as `prove`.
            LinkError: as `prove`.
        """
        self.append([(OWNED_KEY, None)])

    def prove_at_once(self) -> None:
        """The same right before something that no broker refuses to a former owner.

        Raises:
            FencedError: as `prove`.
            BrokerError: as `prove`.
            LinkError: as `prove`.
        """
        self.prove(AT_ONCE_SECONDS)

    def prove(self, seconds: float = SURE_SECONDS) -> None:
        """Sees that this one still owns the topic: by a write, unless one was acknowledged in the last seconds.

        Raises:
            FencedError: another one owns it now.
            BrokerError: the target refuses.
            LinkError: the target does not answer.
        """
        if self.lost or self._ownership is None or not self._ownership.is_proven(seconds):
            self.append([(OWNED_KEY, None)])

    def follow(self) -> None:
        """Reads what is new, to the end.

        Raises:
            BrokerError: the topic cannot be read.
            LinkError: the target does not answer.
            SparkmirrorError: one of our own records was overwritten with what cannot be read, or a batch is damaged.
        """
        came = began = self.now()
        end = self._cursor.offset + 1
        while self._cursor.offset < end:
            found, sign = self._read(), self.state.life
            if found.parted is not None:
                self._fall_back(found.parted)
                end = self._cursor.offset + 1
                continue
            end, answered = found.end, self.now()  # before the entries are taken, which may last
            left = self._left if self._left is not None and self._left.is_read(self._cursor) else None
            with _uncollected():
                for entry in found.entries:
                    self._take(entry)
                    if left is not None:
                        _apply(entry, left.state)
            self._pass_over_batches()
            came = came if self.state.life == sign else answered
            if left is not None:
                left.cursor = found.cursor
            self._elected = max(self._elected, found.elected)
            if found.cursor.offset == self._cursor.offset:
                break
            self._cursor = found.cursor
        self.heard = self.heard.read(self.state.life, began, came)
        if self.state.broken and not self.remembers:
            raise SparkmirrorError(told_of(self.place, self.state.broken))

    def now(self) -> float:
        """This moment, by the clock of `heard`."""
        return this_moment().boot

    def elected_since(self, partition: TopicPartition) -> bool:
        """Whether the topic has had another leader since the newest progress of a partition that was not restored.

        It may have lost what came behind that and had never been read here.
        """
        return self._noted.get(partition, -1) < self._elected

    def _fall_back(self, parted: Cursor) -> None:
        self.torn = f"{self.place} has lost the end of its log, offsets {parted.offset} to {self._cursor.offset - 1}"
        log.warning("%s", self.torn)
        self._noted.clear()
        self.heard = Heard()
        if self._ownership is None:
            self.state, self._cursor, self._elected = JournalState(), Cursor(), -1
        else:
            self._cursor, self._elected, self._left = parted, parted.offset, _Left()

    @property
    def lacks(self) -> bool:
        """Whether its owner knows what the topic has lost, and has not put it there again."""
        return self._left is not None

    def restored(self) -> None:
        """All that the topic has lost and its owner knows is there again."""
        self._left = None

    def left(self, seconds: float) -> JournalState | None:
        """What the topic says up to where this one has read it, read again: without what only this one remembers.

        It is read once, in as many calls as that takes; what comes later is added as it is read.

        Args:
            seconds: after which the call asks for no more.

        Returns:
            that, or None where it is not read to its end yet.

        Raises:
            BrokerError: the topic cannot be read.
            LinkError: the target does not answer.
            SparkmirrorError: it has lost its end once more.
        """
        left, until = self._left, self.now() + seconds
        if left is None:
            return None
        while not left.is_read(self._cursor):
            found = self._target.run(self._journal.follow, left.cursor, self._timeout_ms)
            if found.parted is not None:
                self._left = _Left()
                raise SparkmirrorError(f"{self.place} has lost the end of its log while it was read")
            with _uncollected():
                for entry in found.entries:
                    if entry.offset < self._cursor.offset:
                        _apply(entry, left.state)
            stuck = found.cursor.offset == left.cursor.offset
            left.cursor = self._cursor if stuck or found.cursor.offset > self._cursor.offset else found.cursor
            if self.now() >= until and not left.is_read(self._cursor):
                return None
        return left.state

    def write(self, records: Sequence[Record], tombstones: Sequence[str] = ()) -> None:
        """Writes records, and tombstones for keys that are no longer needed.

        Raises:
            FencedError: another one owns the topic now.
            BrokerError: the target refuses.
            LinkError: the target does not answer.
        """
        self.append(_pairs(records, tombstones))

    def write_by_partition(self, records: Sequence[Record], tombstones: Sequence[str] = ()) -> None:
        """Does so with one batch for all of a partition, which is there as a whole then or not at all.

        Raises:
            FencedError: another one owns the topic now; what was written before is of other partitions.
            BrokerError: the target refuses.
            LinkError: the target does not answer.
        """
        for some in batches_by_partition(_pairs(records, tombstones)):
            self.append(some)

    def append(self, entries: Sequence[Pair]) -> None:
        """Writes keys and values as they are."""
        if not entries:
            return
        try:
            self._target.run(self._journal.append, list(entries), self._timeout_ms)
        except FencedError as failure:
            self.lost = str(failure)
            raise

    def _read(self) -> Followed:
        return self._target.run(self._journal.follow, self._cursor, self._timeout_ms)

    def _take(self, entry: Entry) -> None:
        record = _apply(entry, self.state)
        if isinstance(record, Progress) and not record.restored:
            self._noted[record.partition] = entry.offset

    def _pass_over_batches(self) -> None:
        unopened = self._journal.unopened
        while unopened:
            offset, reason = unopened.popitem()
            self.state.foreign.note(f"offset {offset}: {reason}", offset, Flaw.BATCH)


@dataclass(slots=True)
class _Left:
    """What a topic says that has lost its end, as far as it was read again."""

    state: JournalState = field(default_factory=JournalState)
    cursor: Cursor = field(default_factory=Cursor)

    def is_read(self, cursor: Cursor) -> bool:
        """Whether that is all up to a cursor."""
        return self.cursor.offset >= cursor.offset


def _apply(entry: Entry, state: JournalState) -> Record | Later | None:
    """Adds what an entry says to a state; gives its record, if it is one of ours."""
    key = entry.key
    if entry.value is None:
        state.forget(key)
        return None
    try:
        record = parse(key, entry.value)
    except NotOursError:
        state.foreign.note(key, entry.offset, Flaw.KEY)
    except ValueError as failure:
        if is_renewed(key):
            state.foreign.note(key, entry.offset, Flaw.VALUE)
        else:
            state.broken[key] = Broken(entry.offset, str(failure))
    else:
        state.foreign.forget(key)
        state.broken.pop(key, None)
        if record is not None:
            state.take(record)
        return record
    return None


def _pairs(records: Sequence[Record], tombstones: Sequence[str]) -> list[Pair]:
    return [(record.key, record.value()) for record in records] + [(key, None) for key in tombstones]


def batches_by_partition(entries: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Brings the pairs of each partition together, in their order, and as many partitions as fit into each batch.

    What a partition has beyond the size of a batch goes into further ones.
    """
    by_partition: dict[object, list[Pair]] = {}
    for pair in entries:
        by_partition.setdefault(partition_of(pair[0]), []).append(pair)
    batch: list[Pair] = []
    size = 0
    for some in by_partition.values():
        more = sum(map(size_of, some))
        if batch and size + more > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch += some
        size += more
    if batch:
        yield batch


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage: what is read is kept, and looking through it takes a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

"""One partition on its way: what was fetched and waits, what is in flight, what the target has acknowledged.

The state behind `lane`: no input or output here, so that every order of answers can be tested. Batches enter by `take`
as they were fetched, leave by `next_batch` as they are sent, and end by `acknowledged` or `refused`.

Invariants:
    * Sequence numbers are given when batches arrive, so the source offset behind each is settled before anything is
      sent; merging does not change them, since they count records.
    * A batch beyond a hole waits for the ticket of the segment that records the hole.
    * ``position`` never passes a record that is not acknowledged, unless it was dropped on purpose.
    * A batch goes beside others in flight only while the broker surely remembers the writer: without its memory, a
      batch whose predecessor was refused would be accepted in its place. So the first batch of an epoch, or of a shift,
      goes alone, and unguarded ones go one by one.
    * An unguarded batch is sent only when the segment that it lies in says so, and never again once it may have been
      appended: the partition is given back, which means that nothing more is sent and that it is not settled.
    * After a refusal nothing new is sent until every answer is in; then the same bytes go again, oldest first.
    * Nothing goes to a leader that may lack what was acknowledged, see `footing`.
    * A partition whose target topic is seen to ask for something else than its plan says sends nothing more. Where the
      guard rests on the broker's time, a batch goes beside others only while answers show that the broker sets it.
    * What came by name waits, and moves no position, until its topic's id is confirmed, see `topic_id_check`.
    * A stopped partition sends nothing more; its position stays exact.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import dropwhile

from sparkmirror.copy import distance
from sparkmirror.copy.ahead import SegmentsAhead, Unreached
from sparkmirror.copy.arrivals import Arrival, Place, Rules, Run, Ticket, Unconfirmed
from sparkmirror.copy.distance import IN_FLIGHT_PER_PARTITION
from sparkmirror.copy.footing import Footing, Question
from sparkmirror.copy.guard import FORGOTTEN, Guard
from sparkmirror.copy.lease import now
from sparkmirror.copy.load import Load
from sparkmirror.copy.outgoing import LEAST_USE, Outgoing, Waiting, next_outgoing, on_record
from sparkmirror.copy.plan import GUARDED_MS, PartitionPlan
from sparkmirror.copy.read_replica import ReadReplica
from sparkmirror.copy.recovery import Recovery
from sparkmirror.copy.retries import Retry, decide
from sparkmirror.copy.tally import Tally
from sparkmirror.copy.target_facts import STAMPED_SECONDS, refusal
from sparkmirror.errors import BatchError
from sparkmirror.events import Event, Kind
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.codes import Advice, advice, broker_error, kind_of, may_be_appended
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.model import NO_OFFSET, NO_RECORD, NOTHING, Copied, LastRecord, TopicPartition
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import SEQUENCES, Segments


@dataclass(slots=True)
class PartitionCopy:
    """One partition of a lane.

    Attributes:
        plan: as the driver gave it; ``source`` and ``target`` are those of it.
        rules: what the flow asks of every batch.
        batch_bytes: how large a merged batch may become.
        patience_s: how long the target may refuse before the partition stops.
        backoff: how long a refused batch waits.
        target_alias: the target's name, for messages.
        shared: whether others may write to the target topic, as under identity naming.
        position: the next source offset to copy; exact.
        sequence: the sequence number after the last acknowledged record.
        last: the last acknowledged record.
        opened: whether the segment that opens the writer's epoch is on record.
        fetch_offset: the next source offset to fetch.
        source_node, target_leader: the leaders, or -1 while unknown.
        replica: the follower that is fetched from instead of the source's leader, if any.
        source_id, target_id: topic ids, or None before Kafka 2.8.
        by_name: whether the broker that it is fetched from answered by the topic's name, as before Kafka 3.1.
        unconfirmed: answers by name whose topic's id is not confirmed yet, oldest first.
        end, log_start: of the source, as seen last.
        copies_end: the source offset behind the last copy of the flow the other way that has come, or `NO_OFFSET`.
        error: why it stands still, or "".
        epoch_on_record: the newest leader epoch of the source whose begin is on record.
        epoch_met: the newest one that was met, or is on record: its batches wait until it is there.
        paused: whether nothing more of it is fetched until the driver says so.
        obstacle: why it will stand still once what waits is acknowledged, or "".
        asked: whether a question about it is open, whose answer decides what is fetched next.
        load: the sums of the lane, shared by its partitions.
        base: what the run did before this shift.
        left_out: source offsets, from the position on, of records that became dead letters.
        held: bytes of batches that wait or are in flight.
        ahead: segments that are not reached yet, and where pieces begin on the target.
        lost_leader: the target's leader must be learnt anew.
        cut: the target offset at which the leader's log seems to have been cut off, or `NO_OFFSET`.
        unsettled: it was given back, or the shift before left it so: only the target's log tells what is there.
        released: its last progress is on record: this lane publishes and hands over nothing of it any more.
        footing: whether the target's log is still the one that was written.
        guard: tells which batches the target's brokers remember the writer of.
        remembered_ms: the time of the state that the broker has of the writer, as far as is known.
        stamped_at: when an answer told last whether the topic sets its own timestamps, on the monotonic clock.
        write_ahead: puts a segment on record that was not known when its batches came.
        round_trip: seconds to the target's leader and back.
        recovery: up to when the target surely has all that the source took.
    """

    plan: PartitionPlan
    rules: Rules
    batch_bytes: int
    patience_s: float
    backoff: Backoff = field(default_factory=Backoff)
    target_alias: str = "target"
    shared: bool = False
    position: int = NO_OFFSET
    sequence: int = 0
    last: LastRecord = NO_RECORD
    opened: bool = False
    fetch_offset: int = NO_OFFSET
    source_node: int = NO_LEADER
    replica: ReadReplica = field(default_factory=ReadReplica)
    source_epoch: int = -1
    source_id: uuid.UUID | None = None
    target_leader: int = NO_LEADER
    target_id: uuid.UUID | None = None
    by_name: bool = False
    unconfirmed: deque[Unconfirmed] = field(default_factory=deque)
    end: int = NO_OFFSET
    log_start: int = NO_OFFSET
    copies_end: int = NO_OFFSET
    leader_epoch: int = -1
    epoch_on_record: int = -1
    epoch_met: int = -1
    error: str = ""
    paused: bool = False
    obstacle: str = ""
    asked: bool = False
    load: Load = field(default_factory=Load)
    base: Copied = NOTHING
    left_out: frozenset[int] = frozenset()
    held: int = 0
    lost_leader: bool = False
    cut: int = NO_OFFSET
    unsettled: bool = False
    released: bool = False
    footing: Footing = field(default_factory=Footing)
    guard: Guard = field(default_factory=lambda: Guard(age_ms=GUARDED_MS))
    remembered_ms: int = FORGOTTEN
    stamped_at: float = -math.inf
    write_ahead: Callable[[Sequence[Segments | SourceEpoch], Ticket], None] | None = None
    round_trip: float = 0.0
    recovery: Recovery = field(default_factory=Recovery)
    tally: Tally = field(default_factory=Tally)
    source: TopicPartition = field(init=False)
    target: TopicPartition = field(init=False)
    ahead: SegmentsAhead = field(init=False)
    _noticed: bool = False
    _obstacle_kind: Kind = Kind.STOPPED
    _next_sequence: int = 0
    _continues_at: int = NO_OFFSET
    _flagged: bool = False
    _waiting: deque[Waiting] = field(default_factory=deque)
    _unacknowledged: deque[Outgoing] = field(default_factory=deque)
    _retrying: bool = False
    _retry_at: float = 0.0
    _refused_since: float = 0.0
    _refusals: int = 0
    _limited: bool = False
    _room: int = 0
    _left_out: deque[tuple[int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.source, self.target = self.plan.source, self.plan.target
        self.ahead = SegmentsAhead(self.plan)

    @property
    def read_from(self) -> int:
        """The broker that it is fetched from, or -1 while unknown."""
        return self.replica.node if self.replica.followed else self.source_node

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not self._waiting and not self._unacknowledged and not self.unconfirmed

    @property
    def all_acknowledged(self) -> bool:
        """Whether the target has all below ``position`` and nothing beyond it, for sure."""
        return not self.unsettled and all(batch.surely_missing for batch in self._unacknowledged)

    @property
    def at_rest(self) -> bool:
        """Whether it has stopped, and no answer can change any more what is to be said of it.

        What was given back is taken over from the target's log, whatever answers still come.
        """
        return bool(self.error) and (self.unsettled or not self.in_flight)

    @property
    def last_sent(self) -> int:
        """The last source offset that is on its way, or `NO_OFFSET`."""
        return self._unacknowledged[-1].last_source if self._unacknowledged else NO_OFFSET

    @property
    def in_flight(self) -> bool:
        """Whether an answer of the target is owed."""
        return any(batch.sent for batch in self._unacknowledged)

    @property
    def answered(self) -> bool:
        """Whether the target has acknowledged all that was sent."""
        return not self.error and not self._unacknowledged

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do: stopped, or ``until`` reached."""
        reached = self.plan.until != NO_OFFSET and self.position >= self.plan.until
        return bool(self.error) or reached

    @property
    def fetched_all(self) -> bool:
        """Whether ``until`` has been fetched; what lies behind it is left to the next copy."""
        return self.plan.until != NO_OFFSET and self.fetch_offset >= self.plan.until

    @property
    def copied(self) -> Copied:
        """What the run did with it so far."""
        base, tally = self.base, self.tally
        return Copied(
            records=base.records + tally.records,
            bytes=base.bytes + tally.bytes,
            dead_letters=base.dead_letters + tally.dead_letters,
            loop_filtered=base.loop_filtered + tally.loop_filtered,
        )

    def _hold(self, size: int) -> None:
        self.held += size
        self.load.bytes += size

    def begin(self, position: int, sequence: int, last: LastRecord, opened: bool) -> None:
        """Takes the partition over at an exact position."""
        self.position = self.fetch_offset = position
        self.sequence = self._next_sequence = sequence
        self.last, self.opened = last, opened
        self._continues_at = last.source + 1 if opened and last.source != NO_OFFSET else NO_OFFSET

    def place(self) -> Place:
        """Where the next answer begins."""
        others = self.load.limited - self._limited
        small = distance.small(self.round_trip, others + 1, self.batch_bytes)
        return Place(
            partition=self.source,
            position=self.fetch_offset,
            until=self.plan.until,
            next_sequence=self._next_sequence,
            continues_at=self._continues_at,
            flagged=self._flagged,
            old_ms=self.guard.old_ms,
            writer=self.plan.writer,
            before=NO_OFFSET if self.opened else self.last.before_source,
            anew=self.plan.anew,
            left_out=self.left_out,
            batch_bytes=self.batch_bytes,
            small=small.plain,
            small_compressed=small.compressed,
        )

    def take(self, arrival: Arrival, ticket: Ticket, *, waits: bool = False) -> None:
        """Queues what an answer brought; ``ticket`` stands for its segments, and for what else it ``waits`` for."""
        for item in arrival.items:
            if arrival.openings or waits:
                item.ticket = ticket
            self._hold(item.held)
            self._waiting.append(item)
        if arrival.openings:
            self.ahead.add(arrival.openings, unguarded=arrival.flagged)
        self._next_sequence, self._continues_at = arrival.next_sequence, arrival.continues_at
        self._flagged = arrival.flagged
        self.fetch_offset = arrival.end
        self.tally.dropped += arrival.dropped
        self._settle_position()

    def leave_out(self, batches: Iterable[tuple[int, int]]) -> None:
        """Batches that came from the target; each counts when the position has passed it, or it would be counted again.

        Args:
            batches: of an answer that is taken next, of each the offset behind it and its records, in order.
        """
        self._left_out += batches

    def _count_left_out(self) -> None:
        while self._left_out and self._left_out[0][0] <= self.position:
            self.tally.loop_filtered += self._left_out.popleft()[1]

    @property
    def newest_unconfirmed(self) -> Unconfirmed | None:
        """The newest answer whose topic's id is not confirmed yet."""
        return self.unconfirmed[-1] if self.unconfirmed else None

    def confirm(self, newest: Unconfirmed) -> Sequence[Unconfirmed]:
        """The topic of an answer is the planned one, and so is that of those before it; gives all of them, in order."""
        confirmed = []
        while newest in self.unconfirmed:
            each = self.unconfirmed.popleft()
            each.confirmed = True
            confirmed.append(each)
        self._settle_position()
        return confirmed

    def has_more(self) -> bool:
        """Whether `next_batch` would give one."""
        if self.error:
            return False
        if self._retrying:
            ready = not self.in_flight and time.monotonic() >= self._retry_at and on_record(self._unsent()[0])
        else:
            ready = bool(self._waiting) and len(self._unacknowledged) < self._most and on_record(self._waiting[0])
        return ready and not self.must_verify

    @property
    def must_verify(self) -> bool:
        """Whether the target's leader has to be asked for its log before anything more is sent."""
        if self.footing.doubted:
            return True
        return bool(self._waiting or self._unacknowledged) and self.footing.stale(now()) and not self.in_flight

    @property
    def _most(self) -> int:
        """How many batches may be unacknowledged."""
        state_ms = self.remembered_ms
        if self._unacknowledged and not self.guard.broker_time:
            state_ms = min(state_ms, self._unacknowledged[-1].newest_ms)
        beside = self.guard.remembers(state_ms)
        if self.guard.broker_time:
            beside = beside and time.monotonic() - self.stamped_at < STAMPED_SECONDS
        return IN_FLIGHT_PER_PARTITION if beside else 1

    @property
    def retrying(self) -> bool:
        """Whether a refused batch waits to be sent again."""
        return self._retrying and not self.error

    def next_batch(self) -> Outgoing | None:
        """The next batch to send, or None.

        Raises:
            BatchError: the first batch that waits cannot be merged; see `fail_before_waiting`.
        """
        if not self.has_more():
            return None
        if self._retrying:
            return self._again()
        batch = self._make()
        if not self._may_go(batch):
            self._waiting.appendleft(batch)
            return None
        batch.leader_epoch, batch.sent_at = self.footing.leader_epoch, now()
        self._unacknowledged.append(batch)
        self._mark_limited()
        return batch

    def _may_go(self, batch: Outgoing) -> bool:
        """Whether ``batch`` may be sent; if it turned unguarded while it waited, that is put on record first."""
        if batch.flagged or self.guard.holds(batch.newest_ms):
            return True
        assert self.write_ahead is not None  # a lane gives it
        batch.ticket = Ticket()
        self.write_ahead(self.ahead.flag(batch), batch.ticket)
        return False

    def _make(self) -> Outgoing:
        far = distance.is_far(self.round_trip)
        room = self._room if far else 0
        batch = next_outgoing(self._waiting, self.plan.writer, self.rules, self.batch_bytes, room, far)
        if batch.poured:
            self._room = distance.room(self.batch_bytes, batch.poured, len(batch.payload))
        return batch

    @property
    def may_make_ahead(self) -> bool:
        """Whether the next batch can be merged before there is a place in flight: it will not get fuller by waiting."""
        if not self._limited or not distance.is_far(self.round_trip) or not self._waiting:
            return False
        head = self._waiting[0]
        waits = self.held - sum(batch.held for batch in self._unacknowledged)
        ready = head.ticket is None or head.ticket.acknowledged
        return isinstance(head, Run) and head.small and ready and waits >= LEAST_USE * self.batch_bytes

    def make_ahead(self) -> None:
        """Merges the next batch, so that it can go at the moment that an answer comes."""
        if self.may_make_ahead:
            with suppress(BatchError):  # met again when the batch is to be sent
                self._waiting.appendleft(self._make())

    def _mark_limited(self) -> None:
        limited = len(self._unacknowledged) >= self._most and not self.error
        self.load.limited += limited - self._limited
        self._limited = limited

    def _again(self) -> Outgoing | None:
        """The oldest refused batch, once more; it may have turned unguarded since its answer was lost."""
        oldest, *others = self._unsent()
        if oldest.open and not self.guard.holds(oldest.newest_ms):
            self._give_back(f"source offset {oldest.source}: its answer was lost")
            return None
        if not self._may_go(oldest):
            return None
        oldest.sent, oldest.leader_epoch, oldest.sent_at = True, self.footing.leader_epoch, now()
        self._retrying = bool(others)
        return oldest

    def check(self, asked: Question, epoch: int, end: int, answered_at: float) -> None:
        """Takes what the target's leader has of the epoch that was asked for: its end, or an older epoch's."""
        if not self.footing.holds(asked, epoch, end, answered_at):
            self.cut = end
            self._give_back(
                f"the target's leader has not all of the log: it had offset {asked.reached.end - 1} in leader epoch "
                f"{asked.reached.leader_epoch}, and now epoch {epoch} ends at {end}"
            )

    def compare_writer(self, epoch: int, last_sequence: int) -> None:
        """Takes what the target's leader remembers of the writer, while all that was sent is acknowledged."""
        beyond = (last_sequence - self.sequence) % SEQUENCES
        if epoch == self.plan.writer.epoch and last_sequence != NO_OFFSET and beyond < SEQUENCES // 2:
            self._give_back(
                f"the target topic {self.target.topic} has records up to sequence number {last_sequence} of this "
                f"flow's producer id {self.plan.writer.producer_id}, epoch {epoch}, of which the flow has sent none "
                f"from {self.sequence} on: somebody else has written them"
            )

    def _give_back(self, error: str, kind: Kind = Kind.STOPPED, last: int = NO_OFFSET) -> None:
        """Stops, and leaves it to the driver to read in the target's log what is there."""
        self.unsettled = True
        self.stop(f"{error}; given back: the target's log has to tell what is there", kind, last)

    def doubt(self, batch: Outgoing, error: str, kind: Kind, last: int) -> None:
        """The target says that it has ``batch``, and may have another one in its place: that counts for nothing."""
        batch.sent, batch.open = False, True
        self._give_back(error, kind, last)

    def _unsent(self) -> list[Outgoing]:
        """The refused batches, oldest first; one behind them may be acknowledged already."""
        return [batch for batch in self._unacknowledged if not batch.sent and batch.base_offset == NO_OFFSET]

    def acknowledged(self, batch: Outgoing, base_offset: int) -> None:
        """The target has ``batch`` at ``base_offset``; batches count in order, whatever the order of the answers."""
        if base_offset < self.footing.reached.end and not self.error:
            self.cut = base_offset
            error = (
                f"source offset {batch.source}: it came to lie at offset {base_offset} of a log that had acknowledged "
                f"all below {self.footing.reached.end}"
            )
            self.doubt(batch, error, Kind.STOPPED, NO_OFFSET)
            return
        batch.sent, batch.base_offset = False, base_offset
        while self._unacknowledged and self._unacknowledged[0].base_offset != NO_OFFSET:
            self._count(self._unacknowledged.popleft())
            self._refused_since, self._refusals = 0.0, 0
        self._mark_limited()
        self._retrying = self._retrying and bool(self._unsent())
        if self.error:
            self._let_go()
        self._settle_position()

    def refused(self, batch: Outgoing, code: int, message: str, record: int = 0) -> None:
        """The target, or the connection, did not take ``batch``, maybe because of one of its records.

        Only the oldest batch can tell the cause: what follows it is refused for being out of order.
        """
        batch.sent = False
        batch.open = batch.open or may_be_appended(code)
        if self.error:
            self._let_go()
        if self.error or batch.base_offset != NO_OFFSET:
            return
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        oldest = self._unacknowledged[0] is batch
        what = decide(code, oldest=oldest, guarded=self.guard.holds(batch.newest_ms))
        self.lost_leader = self.lost_leader or advice(code) is Advice.REFRESH
        if what is Retry.GIVE_BACK:
            self._give_back(self._explain(batch, code, message, record), kind_of(code))
        elif what is Retry.GIVE_UP:
            self.stop(*refusal(code, self._explain(batch, code, message, record), batch.payload, self.plan))
        elif now - self._refused_since > self.patience_s:
            self.stop(f"{self._explain(batch, code, message, record)}; refused for {self.patience_s:.0f} s")
        else:
            self._refusals += oldest
            self._retrying, self._retry_at = True, now + self.backoff.after(max(1, self._refusals))

    def _explain(self, batch: Outgoing, code: int, message: str, record: int) -> str:
        error = broker_error(code, self.target_alias, topic=self.target.topic, partition=self.target.partition)
        offset = self.ahead.source_of(batch, record)
        return f"source offset {offset}: {error}" + (f" [{message}]" if message else "")

    def stop(self, error: str, kind: Kind = Kind.STOPPED, last: int = NO_OFFSET, *, first: int | None = None) -> None:
        """Stands still from here on; what is in flight may still be acknowledged.

        Args:
            error: why.
            kind: of event.
            last: the last source offset concerned, if more are than the one at the position.
            first: the first one, if that is not the position.
        """
        if not self.error:
            self.error = error
            first = self.position if first is None else first
            self.tally.note(error, kind, first, max(first, last))
            self._mark_limited()
        self._let_go()
        self.abandon()
        self.load.on_stop(self)

    def lose(self, reason: str) -> None:
        """The lane was given up: whoever takes the partition over looks for itself what is there."""
        self.unsettled = True
        self.stop(reason)

    def _let_go(self) -> None:
        """Gives the memory of a stopped partition back: of refused batches, and of what is acknowledged behind one."""
        dead = dropwhile(lambda batch: batch.sent or batch.base_offset != NO_OFFSET, self._unacknowledged)
        self._hold(-sum(batch.release() for batch in dead if not batch.sent))

    def fail_after_sending(self, error: str, kind: Kind = Kind.STOPPED) -> None:
        """Stops once all that waits has been acknowledged: a batch behind it cannot be copied."""
        self.obstacle, self._obstacle_kind = error, kind
        self._settle_position()
        self.load.on_stop(self)

    def put_aside(self, offset: int, event: str) -> None:
        """Leaves out a record that has become a dead letter, when its batch is taken again.

        The position does not pass it before: only the batch tells the leader epoch that lies left of it then.
        """
        self.left_out = frozenset(known for known in self.left_out if known >= self.position) | {offset}
        self.tally.put_aside(offset, event)

    def fail_before_waiting(self, error: str, kind: Kind = Kind.STOPPED) -> None:
        """Stops once what was sent has been acknowledged: the first batch that waits cannot be copied."""
        self.abandon()
        self.fail_after_sending(error, kind)

    def abandon(self) -> None:
        """Forgets what waits and was never sent, and an obstacle behind it: whoever goes on fetches it again.

        Where nothing waits, offsets that were dropped on purpose stay behind the position.
        """
        self.obstacle = ""
        if self._waiting or self.unconfirmed:
            self._hold(-sum(item.held for item in self._waiting))
            self._waiting.clear()
            self.unconfirmed.clear()
            self.fetch_offset = self._unacknowledged[-1].end if self._unacknowledged else self.position
            while self._left_out and self._left_out[-1][0] > self.fetch_offset:
                self._left_out.pop()

    def unreached(self) -> Unreached:
        """What takes back segments for records that the target does not have, once the partition goes on elsewhere.

        Those of batches without an answer stay, since the target may have them; those of batches that were refused for
        sure do not: whoever goes on may find fewer records in the source, and number them otherwise.
        """
        return self.ahead.unreached(self._left_unacknowledged)

    def newest_ahead(self, *, leaving: bool) -> int:
        """The newest segments that are not reached yet; where it is ``leaving``, of those that stay on record."""
        return self.ahead.newest(self._left_unacknowledged if leaving else None)

    @property
    def _left_unacknowledged(self) -> Sequence[Outgoing]:
        return () if self.all_acknowledged else self._unacknowledged

    def go_to(self, offset: int, event: Event) -> None:
        """Moves on to a later source offset, with an event that says why. Only while `idle`."""
        self.position = self.fetch_offset = offset
        self.tally.note(event.text, event.kind, event.first, event.last)

    def _settle_position(self) -> None:
        if self.idle and not self.error:
            self.position = max(self.position, self.fetch_offset)
            self._count_left_out()
            if self.obstacle:
                self.stop(self.obstacle, self._obstacle_kind)

    def _count(self, batch: Outgoing) -> None:
        offset = batch.base_offset
        # The first record of an epoch opens a piece wherever it lies: nothing else says where the epoch begins.
        expected = self.last.target + 1 if self.opened and self.last.target != NO_OFFSET else None
        self.ahead.place(batch, offset, expected, NO_OFFSET if self.opened else self.last.before_target)
        self._notice_others(offset)
        self._hold(-batch.held)
        self.position = batch.end
        self._count_left_out()
        self.sequence = (batch.sequence + batch.count) % SEQUENCES
        first = self.last.first if self.opened else (batch.source, offset)
        last = (self.sequence - 1) % SEQUENCES, batch.last_source, offset + batch.count - 1
        self.last = LastRecord(*last, *first, *self.last.before)
        self.footing.acknowledged(batch.leader_epoch, offset + batch.count, batch.sent_at)
        self.opened = True
        self.remembered_ms = self.guard.state_ms(batch.newest_ms)
        self.tally.count(batch, time.monotonic())

    def _notice_others(self, offset: int) -> None:
        """Whoever else writes to a topic that is the mirror's alone leaves a gap between its batches there."""
        expected = self.last.target + 1
        if self.shared or self._noticed or self.last.target == NO_OFFSET or offset <= expected:
            return
        self._noticed = True
        self.tally.meet_others(self.target.topic, expected, offset - 1)

"""What a lane does with each answer of a Fetch: errors first, then the batches.

Invariant: an answer that is not taken changes nothing; the same offset is fetched again when its cause is gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sparkmirror import batches
from sparkmirror.config.settings import FlowConfig, GoOn, Isolation, PolicyKind
from sparkmirror.copy.arrivals import Ticket, Unconfirmed, arrival
from sparkmirror.copy.dead_letters import DeadLetterTopic
from sparkmirror.copy.origins import Origins
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.registrations import Carrier, Refusal
from sparkmirror.copy.tally import kind_of_batch
from sparkmirror.errors import BatchError, BrokerError, LinkError, RecordTooLargeError, SparkmirrorError
from sparkmirror.events import Event, Kind
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import OFFSET_OUT_OF_RANGE, Advice, advice, broker_error, kind_of
from sparkmirror.kafka.fetching import Fetched
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.log_range import log_range, passes
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.recovery import Answer
from sparkmirror.offsets.segments import Segments

if TYPE_CHECKING:
    from sparkmirror.copy.lane import Lane

log = logging.getLogger(__name__)

UNKNOWN_EPOCH = -1
SETTLE_SECONDS, LOOK_SECONDS = 5.0, 0.05

Question: TypeAlias = Coroutine[Any, Any, None]


class Intake:
    """Takes what the fetcher brings to a lane.

    Args:
        lane: whose partitions they are.
        source: for questions about its log.
        target: where records go that the target topics cannot hold, if the flow says so.
        config: of the flow.

    Attributes:
        putting_aside: partitions with a record on its way to the dead-letter topic.
    """

    def __init__(self, lane: Lane, source: Cluster, target: Cluster, config: FlowConfig) -> None:
        self._lane = lane
        self._source = source
        self._config = config
        self._by_source = {p.source: p for p in lane.partitions}
        self.putting_aside = 0
        self._dead_letters: DeadLetterTopic | None = None
        if config.dead_letters.active:
            self._dead_letters = DeadLetterTopic(target, lane.plan.flow, config.dead_letters)
        self._origins: Origins | None = None
        if lane.plan.loops_by_writer:
            carrier = Carrier(
                source_id=lane.plan.source_id, target_id=lane.plan.target_id, headers=config.provenance_header
            )
            needed = any(partition.plan.homeward for partition in lane.partitions)
            back = str(config.name.back)
            self._origins = Origins(Journal(source, WRITERS_TOPIC), carrier, needed=needed, back=back)

    def take(self, fetched: Fetched) -> None:
        """Takes one partition's part of an answer."""
        partition = self._by_source.get(fetched.partition)
        if partition is None or partition.error or partition.obstacle or self._lane.watch.draining:
            return
        partition.by_name = fetched.by_name
        if partition.plan.topic_id and (fetched.by_name or partition.unconfirmed):
            self._lane.topic_ids.hold(partition)
        if partition.replica.followed and (fetched.code != 0 or fetched.diverging is not None):
            self._lane.followers.refused(partition, fetched)
        elif fetched.code != 0:
            self._refused(partition, fetched)
        elif fetched.diverging is not None:
            self._ask(partition, self._diverged(partition, *fetched.diverging))
        else:
            self._note(partition, fetched)
            if fetched.records and not partition.asked:
                self._arrived(partition, fetched)
        self._lane.fetcher.update(partition)

    def _note(self, partition: PartitionCopy, fetched: Fetched) -> None:
        committed = self._config.isolation is Isolation.READ_COMMITTED and fetched.last_stable >= 0
        end = fetched.last_stable if committed else fetched.high_watermark
        partition.log_start = fetched.log_start
        if partition.replica.followed:
            partition.end = max(partition.end, end)  # the follower may be behind: only the leader knows the end
            return
        partition.end = end
        answer = Answer(self._lane.fetcher.answered_ms(partition), end)
        held = partition.newest_unconfirmed
        if held is None:
            partition.recovery.answered(answer)
        else:
            held.answer = answer
        if fetched.preferred_node not in (NO_LEADER, partition.source_node):
            self._lane.followers.follow(partition, fetched.preferred_node)

    def _arrived(self, partition: PartitionCopy, fetched: Fetched) -> None:
        index = batches.index(fetched.records)
        if self._origins is not None:
            unknown = self._origins.unknown(index)
            if unknown:
                self._ask(partition, self._origins.look_up(unknown))
                return
            refusal = self._refusal(self._origins, partition, index)
            if refusal is not None:
                partition.fail_after_sending(refusal.text, refusal.kind)
                return
        try:
            self._queue(partition, index, fetched)
        except BatchError as error:
            self._stop(partition, error)
            return
        if partition.asked:
            return
        if index.error is not None and not partition.obstacle and not partition.fetched_all:
            self._stop(partition, index.error)

    def _refusal(self, origins: Origins, partition: PartitionCopy, index: batches.Indexed) -> Refusal | None:
        if partition.plan.homeward:
            return origins.refuses_home(index)
        return None if self._is_renamed(partition) else origins.refuses(index, frozenset(partition.plan.carried))

    def _is_renamed(self, partition: PartitionCopy) -> bool:
        """Whether the name of the copy tells its way, as that of heartbeats does under identity naming too."""
        policy = self._config.policy
        renamed = partition.source.topic != partition.plan.target_topic
        return not policy.keeps_names or (renamed and policy.kind is PolicyKind.IDENTITY)

    def _queue(self, partition: PartitionCopy, index: batches.Indexed, fetched: Fetched) -> None:
        if self._origins is not None:
            partition.rules = partition.rules.without(self._origins.loops)
        ways = self._origins.ways(index) if self._origins is not None and partition.rules.provenance else {}
        came = arrival(index, fetched.records, fetched.aborted, partition.place(), partition.rules, ways)
        if self._origins is not None:
            partition.copies_end = max(partition.copies_end, self._origins.copies_end(index, came.end))
            _tell_of_writers(self._origins, partition, index, came.end)
        ticket = Ticket()
        epoch = _last_epoch(index, came.end)
        ahead: list[Segments | SourceEpoch] = [] if came.segments is None else [came.segments]
        ahead += _new_epochs(partition, index, came.end)
        held = partition.newest_unconfirmed
        partition.take(came, ticket, waits=bool(ahead) or held is not None)
        if came.obstacle is not None:
            self._meet(partition, came.obstacle, index)
        if epoch != UNKNOWN_EPOCH:
            partition.leader_epoch = epoch
        if held is not None:
            held.ticket, held.ahead = ticket, ahead
        elif ahead:
            self._lane.watch.write_ahead(partition, ahead, ticket)
        self._lane.appender.offer(partition)

    def confirmed(self, partition: PartitionCopy, held: Unconfirmed) -> None:
        """Takes what an answer by name has told, and lets its batches go once what lies ahead of them is on record."""
        if held.answer is not None:
            partition.recovery.answered(held.answer)
        if held.ticket is not None and held.ahead:
            self._lane.watch.write_ahead(partition, held.ahead, held.ticket)
        elif held.ticket is not None:
            held.ticket.acknowledged = True
            self._lane.appender.offer(partition)

    def _meet(self, partition: PartitionCopy, obstacle: BatchError, index: batches.Indexed) -> None:
        """What cannot be copied stops its partition; what is only too large may be put aside."""
        if self._dead_letters is not None and isinstance(obstacle, RecordTooLargeError):
            self._ask(partition, self._put_aside(self._dead_letters, partition, obstacle, index))
        else:
            self._stop(partition, obstacle)

    async def _put_aside(
        self, topic: DeadLetterTopic, partition: PartitionCopy, refusal: RecordTooLargeError, index: batches.Indexed
    ) -> None:
        if not await self._is_confirmed(partition):
            return
        held = len(index.data)
        self._lane.load.bytes += held
        self.putting_aside += 1
        try:
            await topic.put_aside(partition, index, refusal)
        except BatchError as error:
            self._stop(partition, error)
        finally:
            self._lane.load.bytes -= held
            self.putting_aside -= 1

    async def _is_confirmed(self, partition: PartitionCopy) -> bool:
        """Waits until all that has come is known to be of the planned topic; False if it is not in time."""
        newest, deadline = partition.newest_unconfirmed, time.monotonic() + SETTLE_SECONDS
        while newest in partition.unconfirmed and time.monotonic() < deadline:
            await self._source.loop.sleep(LOOK_SECONDS)
        return newest is None or newest.confirmed

    def _stop(self, partition: PartitionCopy, error: BatchError) -> None:
        if error.offset < 0:  # not even the batch's header can be believed
            error = BatchError(offset=partition.fetch_offset, reason=error.reason, remedy=error.remedy)
        partition.fail_after_sending(str(error.at(*partition.source)), kind_of_batch(error))

    def _refused(self, partition: PartitionCopy, fetched: Fetched) -> None:
        what = advice(fetched.code)
        if fetched.code == OFFSET_OUT_OF_RANGE:
            self._ask(partition, self._find_range(partition))
        elif what is Advice.GIVE_UP:
            topic, number = partition.source
            error = broker_error(
                fetched.code, self._source.alias, topic=topic, partition=number, offset=partition.fetch_offset
            )
            partition.fail_after_sending(str(error), kind_of(fetched.code))
        else:
            partition.source_node = NO_LEADER

    def _ask(self, partition: PartitionCopy, question: Question) -> None:
        """Runs a question about a partition beside the copy; until it is answered nothing of it is fetched."""
        if partition.asked:
            question.close()
            return
        partition.asked = True
        self._lane.fetcher.update(partition)

        async def ask() -> None:
            try:
                await question
            except SparkmirrorError as failure:
                partition.stop(str(failure))
            except Exception as defect:
                log.exception("%s: a question about %s failed", self._lane.plan.shift, partition.source)
                partition.stop(f"{type(defect).__name__}: {defect}")  # or it would be asked again for ever
            finally:
                partition.asked = False
                self._lane.fetcher.refetch(partition)
                self._lane.signal.set()

        self._source.loop.call_soon(ask)

    async def _find_range(self, partition: PartitionCopy) -> None:
        """The position is outside the source's log, or its leader cannot tell the epoch of what was fetched.

        A question that fails in passing decides nothing: the leader is learnt anew, and fetched from again.
        """
        leader = Leader(partition.source_node, partition.source_epoch)
        try:
            first, end = await log_range(self._source, leader, partition.source, self._config.isolation)
        except (BrokerError, LinkError) as failure:
            if not passes(failure):
                raise
            log.info("%s: where %s-%d begins and ends: %s", self._lane.plan.shift, *partition.source, failure)
            partition.source_node = NO_LEADER
            return
        at = partition.fetch_offset
        settled = await self._settle(partition)
        if first <= at <= end:
            if settled and partition.leader_epoch != UNKNOWN_EPOCH:
                self._forgot(partition)
        elif settled and at > end:
            self._part_ways(partition, UNKNOWN_EPOCH, end)
        elif settled and self._config.on.source_retention is GoOn.STOP:
            text = f"{_overtaken(at, first)}; the copy stands still until on.source.retention is {GoOn.CONTINUE.value}"
            partition.stop(text, Kind.SOURCE_RETENTION, first - 1)
        elif settled and self._lane.watch.may_publish:
            text = f"{_overtaken(at, first)}; going on from the oldest that is left"
            partition.go_to(first, Event(kind=Kind.SOURCE_RETENTION, text=text, first=at, last=first - 1))
            # Before anything behind the gap is fetched: who takes the partition over finds a hole like any other.
            await self._lane.watch.publish()

    async def _settle(self, partition: PartitionCopy) -> bool:
        """Waits until what was fetched before is acknowledged, and of the planned topic.

        Returns:
            whether it is; where it is not in time, the question is asked again.
        """
        deadline = time.monotonic() + SETTLE_SECONDS
        confirmed = await self._is_confirmed(partition)
        while not partition.idle and not partition.error and time.monotonic() < deadline:
            await self._source.loop.sleep(LOOK_SECONDS)
        return confirmed and partition.idle and not partition.error

    async def _diverged(self, partition: PartitionCopy, epoch: int, end: int) -> None:
        """The leader's log has the history of what was fetched up to ``end`` at most, the end of ``epoch`` there.

        An epoch of which no batch was copied may have had none: it was the newest when the copy was sent here.
        """
        settled = await self._settle(partition)
        if end >= partition.fetch_offset and partition.leader_epoch > partition.epoch_met:
            partition.leader_epoch = epoch
        elif settled:
            self._part_ways(partition, epoch, end)

    def _forgot(self, partition: PartitionCopy) -> None:
        """The leader has the offset, and does not know the epoch of what was copied below it: the driver asks on."""
        text = (
            f"the source's leader does not know leader epoch {partition.leader_epoch}, of what was copied below offset "
            f"{partition.position}: its log may be another one by now"
        )
        partition.stop(text, Kind.SOURCE_TAIL_LOST)

    def _part_ways(self, partition: PartitionCopy, epoch: int, end: int) -> None:
        """Stops, since a copy that goes back needs another writer epoch; the driver says from where it goes on."""
        text = (
            f"the source lost its tail in an unclean election: its log has what was copied up to offset {end} at most"
            + (f", the end of leader epoch {epoch}" if epoch != UNKNOWN_EPOCH else "")
            + f", and the copy stands at {partition.position}"
        )
        partition.stop(text, Kind.SOURCE_TAIL_LOST, partition.position - 1, first=end)


def _new_epochs(partition: PartitionCopy, index: batches.Indexed, end: int) -> Iterator[SourceEpoch]:
    """Where leader epochs begin, below an offset, that are not on record yet; they go there now.

    That is right behind the batch before, since compaction may have taken the first ones of the epoch.
    """
    below = int(np.searchsorted(index.last_offset, end)) if len(index) else 0
    if not below or index.leader_epoch[below - 1] <= partition.epoch_met:
        return
    epochs = np.maximum.accumulate(index.leader_epoch[:below])
    for column in np.flatnonzero(np.diff(epochs, prepend=partition.epoch_met) > 0).tolist():
        partition.epoch_met = int(epochs[column])
        yield SourceEpoch(
            partition=partition.source,
            epoch=partition.epoch_met,
            offset=int(index.last_offset[column - 1]) + 1 if column else partition.fetch_offset,
            topic_id=partition.plan.topic_id,
        )


def _tell_of_writers(origins: Origins, partition: PartitionCopy, index: batches.Indexed, end: int) -> None:
    left_out = tuple(origins.left_out(index, partition.fetch_offset, end))
    partition.leave_out(sorted(batch for one in left_out for batch in one.batches))
    for one in left_out:
        if one.doubt:
            partition.tally.doubted.add(one)
    for one in origins.late(index, partition.fetch_offset, end):
        partition.tally.late.add(one)
    partition.tally.tell_of_writers()


def _last_epoch(index: batches.Indexed, end: int) -> int:
    """The leader epoch of the last batch below an offset; that of one beyond would be asked about too early."""
    before = int(np.searchsorted(index.last_offset, end)) - 1 if len(index) else -1
    return int(index.leader_epoch[before]) if before >= 0 else UNKNOWN_EPOCH


def _overtaken(at: int, first: int) -> str:
    return (
        f"the source deleted offsets {at} to {first - 1} before they were copied (by retention, or somebody did): at "
        f"most {first - at} records are missing on the target"
    )

"""Partitions and answers for the tests of this room: real batches, no brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kafka.protocol.consumer import FetchResponse, OffsetForLeaderEpochResponse
from kafka.protocol.producer import ProduceResponse

from sparkmirror import batches
from sparkmirror.batches.layout import COUNT
from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.copy.arrivals import Aborted, Arrival, Place, Rules, Ticket, arrival
from sparkmirror.copy.guard import Guard
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.lease import now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.fetching import Fetched
from sparkmirror.kafka.producing import BatchesRequest
from sparkmirror.kafka.producing import Load as Sent
from sparkmirror.model import NO_OFFSET, NO_RECORD, Alias, FlowName, LastRecord, TopicPartition, Writer
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.segments import Segments
from tests.batches.building import Rec, Written, log

WRITER = Writer(producer_id=4_000, epoch=3)
SOURCE = TopicPartition("orders", 2)
NOW_MS = 1_700_000_000_000
AT_ONCE = Backoff(first=0.0, most=0.0)


EVERY_AGE = Guard(age_ms=1 << 60)
"""All batches are guarded."""


def rules(**more: object) -> Rules:
    target = batches.TargetTopic(log_append_time=False, max_message_bytes=1 << 20)
    wanted = Rules(target=target, read_committed=True, loops=batches.NO_PRODUCERS)
    return replace(wanted, **more)  # type: ignore[arg-type]  # the fields of Rules


def place(position: int = 0, **more: int) -> Place:
    here = Place(
        partition=SOURCE, position=position, until=NO_OFFSET, next_sequence=0, continues_at=NO_OFFSET, writer=WRITER
    )
    return replace(here, **more)  # type: ignore[arg-type]  # the numbers of Place


def plan(**more: object) -> PartitionPlan:
    here = PartitionPlan(source=SOURCE, target_topic="A.orders", topic_id="", position=0, writer=WRITER)
    return replace(here, **more)  # type: ignore[arg-type]  # the fields of PartitionPlan


def partition(*, position: int = 0, sequence: int = 0, opened: bool = True, **more: object) -> PartitionCopy:
    """A partition that has begun; ``opened`` unless a test is about the first batch of an epoch."""
    copy = PartitionCopy(
        plan=plan(**more), rules=rules(), batch_bytes=1 << 20, patience_s=60.0, backoff=AT_ONCE, guard=EVERY_AGE
    )
    copy.begin(position, sequence, NO_RECORD, opened=opened)
    if opened:
        copy.remembered_ms = NOW_MS
    return copy


def batch(base_offset: int, records: int = 3, *, size: int = 20, **more: object) -> Written:
    """A batch of ``records`` records; large enough to go alone from a ``size`` of 40,000 on."""
    recs = tuple(Rec(n, NOW_MS + base_offset + n, b"%d" % (base_offset + n), b"v" * size) for n in range(records))
    return replace(Written(records=recs, base_offset=base_offset), **more)  # type: ignore[arg-type]  # its fields


LARGE = 40_000
"""A record of this size makes a batch that is never merged."""


def answer(written: Sequence[Written], here: Place, *, aborted: Aborted = (), wanted: Rules | None = None) -> Arrival:
    """What an answer with these batches brings."""
    records = log(written)
    return arrival(batches.index(records), records, aborted, here, wanted or rules())


def take(copy: PartitionCopy, *written: Written, on_record: bool = True) -> Ticket:
    """Brings an answer to a partition; its segments are on record, or wait for the ticket that is given back."""
    ticket = Ticket(acknowledged=on_record)
    copy.take(answer(written, copy.place()), ticket)
    return ticket


class WillingTarget(Cluster):
    """A target that takes every batch and keeps the requests; nothing is connected.

    Attributes:
        slow: whether it answers only when `answer` is called.
    """

    def __init__(self, settings: ClientSettings, loop: Any) -> None:
        super().__init__("B", settings, role="test", loop=loop)
        self.requests: list[list[Sent]] = []
        self.slow = False
        self._owed: list[Callable[[], None]] = []
        self._ends: defaultdict[TopicPartition, int] = defaultdict(int)

    def can_send(self, node: int) -> bool:  # noqa: ARG002 - as of any cluster
        return True

    def send(
        self,
        request: BatchesRequest,
        node: int,  # noqa: ARG002 - as of any cluster
        done: Callable[[Any], None],
        timeout_ms: int | None = None,  # noqa: ARG002 - as of any cluster
    ) -> None:
        sent = [load for loads in request._topics.values() for load in loads]
        self.requests.append(sent)
        topic = ProduceResponse.TopicProduceResponse
        part = topic.PartitionProduceResponse
        responses = [
            topic(
                name=load.partition.topic,
                partition_responses=[
                    part(
                        index=load.partition.partition,
                        error_code=0,
                        base_offset=self._append(load.partition, load.payload),
                        error_message=None,
                    )
                ],
            )
            for load in sent
        ]
        self._owed.append(lambda: done(ProduceResponse(responses=responses)))
        if not self.slow:
            self.answer()

    def _append(self, partition: TopicPartition, batch: memoryview) -> int:
        """The offset that a batch comes to lie at."""
        base = self._ends[partition]
        self._ends[partition] += int.from_bytes(batch[COUNT : COUNT + 4], "big")
        return base

    def answer(self) -> None:
        """Gives every answer that is owed."""
        owed, self._owed = self._owed, []
        for give in owed:
            give()

    def written(self, partition: int) -> list[memoryview]:
        """The batches of one partition, in order."""
        return [load.payload for sent in self.requests for load in sent if load.partition.partition == partition]


class SlowSource(Cluster):
    """A source that keeps the requests that are sent to it; nothing is connected.

    Attributes:
        asked: (request, broker, what takes the answer), oldest first.
        brokers: those that the metadata has.
    """

    def __init__(self, alias: str, settings: ClientSettings, *, role: str, loop: Any = None) -> None:
        super().__init__(alias, settings, role=role, loop=loop)
        self.asked: list[tuple[Any, int, Callable[[Any], None]]] = []
        self.brokers = {1, 2, 3}

    def can_send(self, node: int) -> bool:  # noqa: ARG002 - as of any cluster
        return True

    def knows(self, node: int) -> bool:
        return node in self.brokers

    def send(
        self,
        request: Any,
        node: int,
        done: Callable[[Any], None],
        timeout_ms: int | None = None,  # noqa: ARG002 - as of any cluster
    ) -> None:
        self.asked.append((request, node, done))


BEGIN = 10
SESSION = 77


def told(records: bytes) -> Any:
    """An answer of the source with these records of partition 0 and nothing of others."""
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1 << 40,
        last_stable_offset=1 << 40,
        log_start_offset=0,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=records,
    )
    responses = [topic(topic="orders", partitions=[part])]
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=SESSION, responses=responses)


def log_end(request: Any, end: int, code: int = 0) -> Any:
    """A leader's answer to where an epoch ends in the log of one partition: the epoch asked for, up to ``end``."""
    (topic,) = request.topics
    (one,) = topic.partitions
    wire = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    told = wire.EpochEndOffset(error_code=code, partition=one.partition, leader_epoch=one.leader_epoch, end_offset=end)
    return OffsetForLeaderEpochResponse(topics=[wire(topic=topic.topic, partitions=[told])])


TURNS = 50
"""More turns of a loop than anything takes that waits for nobody."""


class Bench:
    """A lane whose answers are made by hand; its partitions 0 and so on go on at `BEGIN` without a hole before it."""

    def __init__(self, partitions: int, **settings: int) -> None:
        client = ClientSettings(bootstrap_servers=("127.0.0.1:1",), **settings)  # type: ignore[arg-type]  # its numbers
        self._loop = new_loop("bench")
        self.source = SlowSource("A", client, role="test", loop=self._loop)
        self.target = WillingTarget(client, self._loop)
        config = FlowConfig(
            name=FlowName(source=Alias("A"), target=Alias("B")),
            source=Endpoint(alias=Alias("A"), consumer=client, producer=client, admin=client),
            target=Endpoint(alias=Alias("B"), consumer=client, producer=client, admin=client),
        )
        plans = tuple(
            plan(source=TopicPartition("orders", number), max_message_bytes=64 << 20) for number in range(partitions)
        )
        shift = ShiftPlan(flow="A->B", run="run", shift="lane-0.0", generation=1, partitions=plans)
        self.lane = Lane(shift, config, self.source, self.target)
        self.lane.lease.renew(now() + 1e9)
        self.lane.watch.write_ahead = self._put_on_record  # type: ignore[method-assign]  # no internal topic is there
        for partition in self.lane.partitions:
            partition.begin(BEGIN, BEGIN, LastRecord(BEGIN - 1, BEGIN - 1, BEGIN - 1), opened=True)
            partition.guard, partition.remembered_ms = EVERY_AGE, NOW_MS
            partition.source_node = partition.target_leader = 1

    def _put_on_record(
        self, partition: PartitionCopy, records: Sequence[Segments | SourceEpoch], ticket: Ticket
    ) -> None:
        ticket.acknowledged = bool(records)
        self.lane.appender.offer(partition)

    def __getitem__(self, partition: int) -> PartitionCopy:
        return self.lane.partitions[partition]

    def bring(
        self, partition: int, records: bytes, *, aborted: Aborted = (), code: int = 0, by_name: bool = False
    ) -> None:
        """Brings an answer, and sends what is ready then."""
        fetched = Fetched(
            partition=TopicPartition("orders", partition),
            code=code,
            records=records,
            aborted=aborted,
            high_watermark=1 << 40,
            last_stable=1 << 40,
            log_start=0,
            preferred_node=-1,
            by_name=by_name,
        )
        self.lane.intake.take(fetched)

    def send(self) -> None:
        """Sends whatever waits."""
        self.lane.appender.send_ready()

    def run(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs a coroutine function on the lane's loop, and whatever else is on it meanwhile."""
        return self._loop.run(work, *args)

    async def rest(self) -> None:
        """Lets what was begun on the loop come to its end, also on a machine so busy that 0.01 s are nothing."""
        await self._loop.sleep(0.01)
        for _ in range(TURNS):
            await self._loop.sleep(0)

    def close(self) -> None:
        self.source.close()
        self.target.close()
        self._loop.close()

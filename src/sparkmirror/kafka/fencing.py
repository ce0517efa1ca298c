"""Fencing: from here on brokers refuse what a writer with an older epoch still sends.

A transaction without data does it: AddPartitionsToTxn, EndTxn(abort), nothing in between. Its control record, one per
partition, carries the new epoch, and a leader that has it refuses every lower one.

Invariants:
    - A fence holds when its record lies below the high watermark. The coordinator is done with a transaction when all
      in-sync replicas of all partitions have their records; it says so by answering EndTxn without an error once more
      (``TransactionCoordinator.endTransaction``: CONCURRENT_TRANSACTIONS in PrepareAbort, none in CompleteAbort). While
      it is not done, the partitions themselves are asked.
    - A partition takes part only if its leader answers: one without a leader keeps a transaction open without end, and
      the writer's next epoch with it.
    - Nor does one take part whose leader knows a newer epoch of the producer id, which somebody has forged, or which
      the coordinator has forgotten: it refuses the control record, and the coordinator then sends none to the others,
      never completes the transaction, and gives out no epoch of the id any more
      (``TransactionMarkerRequestCompletionHandler``). One that knows the same epoch takes the record, and shuts out
      nobody who has that epoch.
    - AddPartitionsToTxn at most v3 (v4 is for brokers), EndTxn at most v4: v5 raises the epoch by itself (KIP-890).

References: KIP-98, KIP-360; ``TransactionCoordinator`` and ``TransactionMarkerChannelManager`` of Kafka's broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest

from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka.admin import find_offsets, list_topics
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import TOPIC_AUTHORIZATION_FAILED, broker_error
from sparkmirror.kafka.coordinator import ask_coordinator
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.kafka.producer_states import ask_leaders_for_producers
from sparkmirror.kafka.rounds import Answer, Deadline, Results, chunks, explained, repeat
from sparkmirror.kafka.tails import Mark, last_batches
from sparkmirror.model import TopicPartition, Writer

UNKNOWN_TOPIC = 3
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
CONCURRENT_TRANSACTIONS = 51
OPERATION_NOT_ATTEMPTED = 55

PARTITIONS = 5_000
"""In one transaction: the coordinator writes all their names into its log at once."""

PROBE_MS = 5_000
"""For leaders to answer before a fence; whose leader does not is fenced later."""

EVIDENCE_MS = 10_000
"""For the partitions of a transaction that is not complete in time to show their control records."""

ABANDON_MS = 2_000
COMPLETION = Backoff(first=0.02, most=0.5)
"""Between two looks at a transaction that is being completed; 1,500 partitions took 0.43 s."""

_OWN_CODES = frozenset({0, UNKNOWN_TOPIC, TOPIC_AUTHORIZATION_FAILED, OPERATION_NOT_ATTEMPTED})
"""Of AddPartitionsToTxn: said of one partition. Any other code is the coordinator's, the same for all."""


def fence(
    cluster: Cluster, transactional_id: str, writer: Writer, partitions: Sequence[TopicPartition], timeout_ms: int
) -> Results[TopicPartition, Mark]:
    """Shuts out everybody who writes to ``partitions`` with the producer id of ``writer`` and an older epoch.

    Args:
        cluster: where they write.
        transactional_id: that the producer id belongs to.
        writer: with an epoch that nobody has written with yet.
        partitions: which; those that are not there, or have no leader, fail, and the others are fenced.
        timeout_ms: milliseconds until partitions that are not fenced count as failed.

    Returns:
        What each fence left in the log, for ``tails``.

    Raises:
        FencedError: the epoch of ``writer`` is not the newest one any more.
        LinkError: no broker could be asked.
    """
    fencing = _Fencing(cluster=cluster, transactional_id=transactional_id, writer=writer)
    deadline = Deadline(timeout_ms, cluster.backoff)
    floors = fencing.confirmed(fencing.probe(partitions, writer.epoch, deadline), deadline)

    def ask(wanted: Sequence[TopicPartition], left: Deadline) -> Iterable[Answer[TopicPartition, Mark]]:
        for chunk in chunks(wanted, PARTITIONS):
            yield from fencing.by_abort(chunk, floors.found, left)

    done = repeat(list(floors.found), ask, fencing.explain, deadline.left_ms, cluster.backoff)
    return Results(found=done.found, failed={**floors.failed, **done.failed})


def fence_and_renew(
    cluster: Cluster, transactional_id: str, writer: Writer, partitions: Sequence[TopicPartition], timeout_ms: int
) -> tuple[Results[TopicPartition, Mark], Writer]:
    """Like `fence`, with the next writer asked for in the place of EndTxn: for the last epoch of a producer id.

    The coordinator then ends the transaction with an epoch that it gives to nobody, above that of ``writer``. At 32,766
    there is no other way to fence: the next epoch that it hands out belongs to another producer id.

    Returns:
        What each fence left in the log; the writer to go on with.

    Raises:
        FencedError: the epoch of ``writer`` is not the newest one any more.
        BrokerError: the coordinator refuses, or is not done until the deadline; nothing is known to be fenced then.
        LinkError: it cannot be reached.
    """
    fencing = _Fencing(cluster=cluster, transactional_id=transactional_id, writer=writer)
    deadline = Deadline(timeout_ms, cluster.backoff)
    floors = fencing.confirmed(fencing.probe(partitions, writer.epoch + 1, deadline), deadline)
    added: list[TopicPartition] = []
    failed = dict(floors.failed)
    for chunk in chunks(list(floors.found), PARTITIONS):
        some, refused = fencing.add(chunk, deadline)
        added += some
        failed.update((partition, fencing.explain(partition, code, "")) for partition, code in refused.items())
    following = acquire_writer(cluster, transactional_id, deadline.left_ms)
    marks = fencing.marks(added, floors.found, writer.epoch + 1)
    return Results(found=marks, failed=failed), following


def epochs_of(
    cluster: Cluster, producer_id: int, partitions: Sequence[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, int]:
    """The newest epoch of a producer id that the leader of each partition knows, of those that know one and answer.

    Raises:
        LinkError: no broker tells who leads.
    """
    known = list_topics(cluster, sorted({partition.topic for partition in partitions}), timeout_ms)
    nodes = {
        partition: known[partition.topic].partitions[partition.partition].node
        for partition in partitions
        if partition.topic in known and partition.partition in known[partition.topic].partitions
    }
    leaders = {partition: node for partition, node in nodes.items() if node >= 0}
    answers = cluster.run(ask_leaders_for_producers, cluster, leaders, timeout_ms)
    return {
        answer.key: answer.value[producer_id].epoch
        for answer in answers
        if answer.value is not None and producer_id in answer.value
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fencing:
    """Transactions of one writer."""

    cluster: Cluster
    transactional_id: str
    writer: Writer

    def probe(
        self, partitions: Sequence[TopicPartition], epoch: int, deadline: Deadline
    ) -> Results[TopicPartition, int]:
        """The high watermarks of partitions whose leader answers: their control records come to lie there or above.

        Without those whose leader knows that ``epoch`` or a newer one: nobody was to have it before the fence.
        """
        while True:
            left_ms = min(deadline.left_ms, PROBE_MS)
            try:
                floors = find_offsets(self.cluster, partitions, OffsetSpec.LATEST, timeout_ms=left_ms)
                refusing = self._refusing(list(floors.found), epoch, max(1, min(deadline.left_ms, PROBE_MS)))
            except LinkError:  # the broker that was to tell who leads hangs: the next one does not
                deadline.pause()
                if deadline.passed:
                    raise
                continue
            found = {partition: floor for partition, floor in floors.found.items() if partition not in refusing}
            return Results(found=found, failed={**floors.failed, **refusing})

    def confirmed(self, floors: Results[TopicPartition, int], deadline: Deadline) -> Results[TopicPartition, int]:
        """The same, when the coordinator has said that leaders know no newer epoch because another driver has got it.

        Raises:
            FencedError: another driver has.
        """
        refusing = [partition for partition, failure in floors.failed.items() if _is_refusing(failure)]
        if not refusing:
            return floors
        try:
            self._ask(self._end_request, _unless_nothing_to_end, deadline)
        except FencedError:
            raise
        except (BrokerError, LinkError) as failure:
            return Results(found=floors.found, failed={**floors.failed, **dict.fromkeys(refusing, failure)})
        return floors

    def _refusing(
        self, partitions: Sequence[TopicPartition], epoch: int, timeout_ms: int
    ) -> dict[TopicPartition, BrokerError | LinkError]:
        """Partitions whose leader knows ``epoch`` or a newer one, as far as leaders tell."""
        refusing: dict[TopicPartition, BrokerError | LinkError] = {}
        for partition, newest in epochs_of(self.cluster, self.writer.producer_id, partitions, timeout_ms).items():
            if newest >= epoch:
                text = (
                    f"its leader knows epoch {newest} of producer id {self.writer.producer_id}, of which {epoch} "
                    "is the newest that was given out: somebody who may write to the topic has forged batches; see who "
                    "has WRITE there, and delete the topic: it is copied anew"
                )
                refusing[partition] = self.explain(partition, INVALID_PRODUCER_EPOCH, text)
        return refusing

    def marks(
        self, partitions: Iterable[TopicPartition], floors: Mapping[TopicPartition, int], epoch: int
    ) -> dict[TopicPartition, Mark]:
        return {partition: Mark(self.writer.producer_id, epoch, floors[partition]) for partition in partitions}

    def by_abort(
        self, partitions: Sequence[TopicPartition], floors: Mapping[TopicPartition, int], deadline: Deadline
    ) -> Iterable[Answer[TopicPartition, Mark]]:
        """One transaction, begun and aborted, and what became of each partition."""
        try:
            added, refused = self.add(partitions, deadline)
        except FencedError:
            raise
        except (BrokerError, LinkError) as failure:
            self._abandon()
            yield from _failed(partitions, failure)
            return
        yield from (Answer(key=partition, code=code) for partition, code in refused.items())
        if not added:
            return
        marks = self.marks(added, floors, self.writer.epoch)
        reserve_ms = min(EVIDENCE_MS, deadline.left_ms // 2)
        try:
            self._end(Deadline(deadline.left_ms - reserve_ms, COMPLETION))
        except FencedError:
            raise
        except (BrokerError, LinkError) as failure:
            shown = last_batches(self.cluster, added, reserve_ms, fenced=marks).found
            yield from _failed([partition for partition in added if partition not in shown], failure)
            added = list(shown)
        yield from (Answer(key=partition, value=marks[partition]) for partition in added)

    def add(
        self, partitions: Sequence[TopicPartition], deadline: Deadline
    ) -> tuple[list[TopicPartition], dict[TopicPartition, int]]:
        """Opens the transaction, or enlarges it, with all partitions that the coordinator takes.

        Returns:
            those that are in it; those that it refused, with the code. One of them makes it refuse all, so the others
            are sent again.

        Raises:
            FencedError: the epoch is not the newest one any more.
            BrokerError: the coordinator refuses, or is not available until the deadline.
            LinkError: it cannot be reached.
        """
        refused: dict[TopicPartition, int] = {}
        wanted = list(partitions)
        while wanted:
            answer = self._ask(lambda: self._add_request(wanted), _common_code, deadline)  # noqa: B023 - sent within
            codes = dict(_codes(answer))
            bad = {partition: code for partition, code in codes.items() if code not in (0, OPERATION_NOT_ATTEMPTED)}
            refused |= bad
            if not bad:
                break
            wanted = [partition for partition in wanted if partition not in bad]
        return wanted, refused

    def _end(self, deadline: Deadline) -> None:
        """Aborts the transaction and waits until it is complete.

        The first answer without an error may be that of the beginning of the end. The second one cannot: only of a
        transaction that is complete is there nothing left to say.
        """
        for _ in ("begun", "complete"):
            self._ask(self._end_request, lambda answer: int(answer.error_code), deadline)

    def _abandon(self) -> None:
        """Ends what a lost answer may have left open, so that its timeout does not spend the epoch; one attempt."""
        try:
            deadline = Deadline(ABANDON_MS, COMPLETION)
            self._ask(self._end_request, lambda answer: int(answer.error_code), deadline)
        except (BrokerError, LinkError):
            return

    def _ask(self, request: Any, code_of: Any, deadline: Deadline) -> Any:
        return ask_coordinator(self.cluster, self.transactional_id, request, code_of, deadline)

    def _add_request(self, partitions: Sequence[TopicPartition]) -> Any:
        wire = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        by_topic: dict[str, list[int]] = defaultdict(list)
        for partition in partitions:
            by_topic[partition.topic].append(partition.partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.writer.producer_id,
            v3_and_below_producer_epoch=self.writer.epoch,
            v3_and_below_topics=[wire(name=name, partitions=numbers) for name, numbers in by_topic.items()],
            max_version=3,
        )

    def _end_request(self) -> Any:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.writer.producer_id,
            producer_epoch=self.writer.epoch,
            committed=False,
            max_version=4,
        )

    def explain(self, partition: TopicPartition, code: int, message: str) -> BrokerError:
        """The error of a partition that is not fenced."""
        alias, remedy = self.cluster.alias, message or broker_error(code, self.cluster.alias).remedy
        if code == CONCURRENT_TRANSACTIONS:
            remedy = f"the transaction of {self.transactional_id} is not complete: do all its partitions have a leader?"
        return explained(code, alias, topic=partition.topic, partition=partition.partition, remedy=remedy)


def _is_refusing(failure: Exception) -> bool:
    return isinstance(failure, BrokerError) and failure.code == INVALID_PRODUCER_EPOCH


def _unless_nothing_to_end(answer: Any) -> int:
    """The code of EndTxn, which looks at the epoch first; 0 where no transaction was open."""
    code = int(answer.error_code)
    return 0 if code == INVALID_TXN_STATE else code


def _failed(
    partitions: Iterable[TopicPartition], failure: BrokerError | LinkError
) -> Iterable[Answer[TopicPartition, Mark]]:
    for partition in partitions:
        if isinstance(failure, LinkError):
            yield Answer(key=partition, link=failure)
        else:
            yield Answer(key=partition, code=failure.code, message=failure.remedy)


def _codes(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.results_by_topic_v3_and_below:
        for part in topic.results_by_partition:
            yield TopicPartition(topic.name, part.partition_index), int(part.partition_error_code)


def _common_code(answer: Any) -> int:
    """The code that the coordinator gave for all partitions together; 0 when it speaks of single ones."""
    return next((code for _, code in _codes(answer) if code not in _OWN_CODES), 0)

"""A journal whose writer cannot be overtaken by its own past: every append is idempotent.

A request may be lost from sight: it hangs in a connection that is given up, is repeated over another one, and reaches
the broker after the repetition. In a compacted topic the late copy would be the newest record of its key, whoever wrote
the key meanwhile. So each writer has a producer id of its own. A late copy has a sequence number that the broker has
taken already, or an epoch below the newest, and is refused.

Invariants:
    * Batches lie in the log in the order in which they were appended here.
    * When an append has returned, no request that was sent before it can be appended any more.
    * Nothing is sent, nor repeated, while ``allowed`` says no; what waits goes again when it says yes in time.
    * After a failure nothing is sent before every request in flight has an answer or is given up. What is not
      acknowledged then goes again, in order, under the next epoch, with sequence 0.
    * Of those that own a journal by one transactional id, only the last to do so appends, from its first append on.
      The coordinator alone raises epochs then, and refuses one that holds an older epoch than the newest. The id is
      renewed with the appends, see `ownership`: an owner has to append now and then.

References: KIP-98 (sequence numbers), KIP-360 and ``TransactionManager.bumpIdempotentProducerEpoch`` (the client raises
the epoch of an idempotent producer by itself), ``ProducerAppendInfo.maybeValidateDataBatch``.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka.cluster import CALL_MS, Cluster
from sparkmirror.kafka.codes import Advice, advice, broker_error
from sparkmirror.kafka.journal import ATTEMPT_MIN_MS, ATTEMPT_MS, Journal, Pair, encode, split
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.kafka.ownership import Ownership
from sparkmirror.kafka.producer_ids import NOBODY
from sparkmirror.kafka.signal import Signal
from sparkmirror.model import Writer

IN_FLIGHT = 2
"""To a far target a write takes long, however much is in it: what comes meanwhile need not wait for its answer."""

DUPLICATE_SEQUENCE_NUMBER = 46
_AGAIN = frozenset({45, 47, 59, 90})
"""OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID and PRODUCER_FENCED: another epoch helps,
or the coordinator refuses to give one."""

_LAST_EPOCH = 32_000
_MOST_SEQUENCES = 1 << 30


@dataclass(slots=True, eq=False)
class _Batch:
    """Pairs that go as one record batch.

    Attributes:
        deadline: on the monotonic clock; the caller of `append` gives up then.
        done: raised when there is an outcome.
        offset: of the first pair in the log, or -1.
        acknowledged: whether all in-sync replicas have it.
        abandoned: whether the caller of `append` has given up.
        failure: why it was not acknowledged so far.
        lasting: whether sending it again would not help.
        in_flight: whether an answer is owed.
    """

    pairs: Sequence[Pair]
    deadline: float
    done: Signal
    offset: int = -1
    acknowledged: bool = False
    abandoned: bool = False
    failure: BrokerError | LinkError | None = None
    lasting: bool = False
    in_flight: bool = False

    @property
    def over(self) -> bool:
        """Whether it is not to be sent any more."""
        return self.acknowledged or self.abandoned or self.lasting


@dataclass(slots=True)
class _Pipeline:
    """What was sent under the present epoch, in order, and what waits."""

    waiting: deque[_Batch] = field(default_factory=deque)
    sent: list[_Batch] = field(default_factory=list)
    broken: bool = False

    @property
    def owed(self) -> int:
        """How many answers are owed."""
        return sum(batch.in_flight for batch in self.sent)

    def acknowledge(self, batch: _Batch, offset: int) -> None:
        """A broker takes batches in order: those sent before this one are in the log too."""
        for earlier in self.sent[: self.sent.index(batch) + 1]:
            earlier.acknowledged = True
            earlier.done.set()
        batch.offset = offset

    def forget_acknowledged(self) -> None:
        """Keeps what is owed an answer, or has to go again."""
        self.sent = [batch for batch in self.sent if batch.in_flight or not batch.acknowledged]

    def put_back(self) -> None:
        """Puts unacknowledged batches back to the head of the queue, without those that are over."""
        again = [batch for batch in self.sent if not batch.over]
        self.waiting.extendleft(reversed(again))
        self.sent, self.broken = [], False


class IdempotentJournal(Journal):
    """A `Journal` with a producer id of its own, got at the first append.

    Args:
        cluster, topic, partition: as for `Journal`.
        allowed: asked right before each request.
    """

    def __init__(
        self, cluster: Cluster, topic: str, partition: int = 0, allowed: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(cluster, topic, partition)
        self._allowed = allowed
        self._writer: Writer | None = None
        self._ownership: Ownership | None = None
        self._sequence = 0
        self._pipeline = _Pipeline()
        self._changed = Signal(cluster.loop)
        self._running = False
        self._failures = 0

    @property
    def writer(self) -> Writer:
        """The producer id and epoch of what is appended next, as far as they are known."""
        return NOBODY if self._writer is None else self._writer

    async def own(self, ownership: Ownership, timeout_ms: int = CALL_MS) -> None:
        """From the next append on, refuses all that others append who owned the journal by this name before.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: it cannot be reached.
        """
        self._writer = await ownership.take(self.cluster, timeout_ms)
        self._ownership, self._sequence = ownership, 0
        self._pipeline.broken |= bool(self._pipeline.sent)  # an answer is owed to what went under the writer before

    async def append(self, entries: Sequence[Pair], timeout_ms: int = CALL_MS) -> int:
        """Writes ``(key, value)`` pairs behind all that was appended before; see `Journal.append`.

        After an error the pairs may still be appended, but only before anything that is appended later.

        Raises:
            FencedError: another one owns the journal now.
            BrokerError: it refuses the pairs.
            LinkError: it does not answer in time.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        batches = [_Batch(pairs, deadline, Signal(self.cluster.loop)) for pairs in split(entries)]
        self._pipeline.waiting.extend(batches)
        self._start()
        for batch in batches:
            await batch.done.wait(max(0.0, deadline - time.monotonic()))
            if not batch.acknowledged:
                for other in batches:
                    other.abandoned = True
                self._changed.set()
                raise batch.failure or self._late(timeout_ms)
        return batches[-1].offset if batches else -1

    def _late(self, timeout_ms: int) -> LinkError:
        return self._not_written(f"within {timeout_ms / 1000:.0f} s")

    def _not_written(self, why: str) -> LinkError:
        cluster, reason = self.cluster, f"{self.topic} was not written {why}"
        return LinkError(cluster=cluster.alias, address=cluster.address, reason=reason)

    def _start(self) -> None:
        self._changed.set()
        if not self._running:
            self._running = True
            self.cluster.loop.call_soon(self._run)

    async def _run(self) -> None:
        """Sends what waits, until nothing does and no answer is owed."""
        pipeline = self._pipeline
        try:
            while pipeline.waiting or pipeline.sent:
                pipeline.forget_acknowledged()
                if pipeline.broken and not pipeline.owed:
                    await self._begin_epoch()
                elif not pipeline.broken and pipeline.waiting and len(pipeline.sent) < IN_FLIGHT:
                    await self._send_next()
                elif pipeline.owed:
                    await self._changed.wait(ATTEMPT_MS / 1000)
        finally:
            self._running = False

    async def _send_next(self) -> None:
        batch = self._pipeline.waiting.popleft()
        if batch.over:
            return
        if self._writer is None or self._leader == NO_LEADER or self._is_over(self._writer):
            self._pipeline.waiting.appendleft(batch)
            self._pipeline.broken = True  # gets all of that, when no answer is owed
            return
        payload = encode(batch.pairs, self._writer, self._sequence)
        self._sequence += len(batch.pairs)
        batch.in_flight = True
        self._pipeline.sent.append(batch)
        self.cluster.loop.call_soon(partial(self._send, batch, payload))

    def _is_over(self, writer: Writer) -> bool:
        """Whether the next batch is to have another epoch."""
        ownership = self._ownership
        must_renew = ownership is not None and ownership.must_renew(writer, self._sequence)
        return must_renew or self._sequence > _MOST_SEQUENCES

    async def _send(self, batch: _Batch, payload: bytes) -> None:
        left_ms = int((batch.deadline - time.monotonic()) * 1000)
        ownership = self._ownership
        sent = None if ownership is None else ownership.clock()
        try:
            if not self._allowed():
                raise self._not_written("since its writer may not write now")
            offset = await self._produce(payload, min(ATTEMPT_MS, max(ATTEMPT_MIN_MS, left_ms)))
            self._pipeline.acknowledge(batch, offset)
            self._failures = 0
            if ownership is not None and sent is not None:
                ownership.acknowledged(sent)
        except BrokerError as refusal:
            self._refused(batch, refusal)
        except LinkError as broken:
            self._fail(batch, broken)
        finally:
            batch.in_flight = False
            self._pipeline.broken |= not batch.acknowledged  # whatever was raised: nothing else would send it again
            self._changed.set()

    def _refused(self, batch: _Batch, refusal: BrokerError) -> None:
        if refusal.code == DUPLICATE_SEQUENCE_NUMBER:
            self._pipeline.acknowledge(batch, -1)
            return
        batch.lasting = refusal.code not in _AGAIN and advice(refusal.code) not in (Advice.RETRY, Advice.REFRESH)
        self._fail(batch, refusal)

    def _fail(self, batch: _Batch, failure: BrokerError | LinkError) -> None:
        if batch.acknowledged:
            return  # the acknowledgement of a later batch covers this one
        batch.failure = failure
        self._pipeline.broken = True
        self._leader = NO_LEADER
        if batch.lasting:
            batch.done.set()

    async def _begin_epoch(self) -> None:
        """Makes ready to send again what is not acknowledged; fails the batches that wait only at their deadlines."""
        pipeline = self._pipeline
        pipeline.put_back()
        if self._failures:
            await self.cluster.loop.sleep(self.cluster.backoff.after(self._failures))
        pipeline.waiting = deque(batch for batch in pipeline.waiting if not batch.over)
        if not pipeline.waiting:
            pipeline.broken = self._writer is not None  # the next append begins an epoch
            return
        self._failures += 1
        try:
            await self._next_writer()
            await self._find_leader(ATTEMPT_MS)
        except BrokerError as refusal:
            for batch in pipeline.waiting:
                batch.failure = refusal
                fenced = isinstance(refusal, FencedError)
                batch.lasting = fenced or advice(refusal.code) not in (Advice.RETRY, Advice.REFRESH)
                if batch.lasting:
                    batch.done.set()
            pipeline.broken = True
        except LinkError as broken:
            for batch in pipeline.waiting:
                batch.failure = broken
            pipeline.broken = True

    async def _next_writer(self) -> None:
        writer = self._writer
        if self._ownership is not None and writer is not None:
            self._writer = await self._ownership.renew(self.cluster, writer, ATTEMPT_MS)
        elif writer is not None and writer.epoch < _LAST_EPOCH:
            self._writer = replace(writer, epoch=writer.epoch + 1)
        else:
            self._writer = await self._new_writer()
        self._sequence = 0

    async def _new_writer(self) -> Writer:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=0, producer_id=-1, producer_epoch=-1, max_version=4
        )
        answer: Any = await self.cluster.exchange(request, None, ATTEMPT_MS)
        if answer.error_code != 0:
            raise broker_error(answer.error_code, self.cluster.alias, topic=self.topic)
        return Writer(producer_id=int(answer.producer_id), epoch=int(answer.producer_epoch))

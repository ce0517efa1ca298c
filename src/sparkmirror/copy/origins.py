"""Where batches were born, by the producer id that wrote them: loop prevention under identity naming.

Each flow registers its producer ids, with the clusters that their batches come from, in
``sparkmirror.writers.internal`` of the cluster it writes to, before its first batch. A flow that reads that cluster
drops the batches whose origin contains its own target; what becomes of other mirrors' batches is said by
`registrations`.

Invariant: a batch is copied only when the registry was read to its end after the batch was seen, or its producer was
known before; a mirror's producer is known up to the epoch that was looked up. Registrations are never deleted, and name
the cluster id, so a topic copied by other means does no harm.

Whoever may write to the registry can have anybody's batches dropped. So what is dropped is counted (`left_out`), and a
producer that its cluster does not confirm as the registered flow's (`kafka.transactional_ids`) is told of. It is
dropped all the same: the coordinator forgets the ids of flows that stood still, and a true copy that went back would go
round. Not so where a producer was looked up, and was nobody's, before it was registered: a mirror registers first, and
some of its batches were copied. Such a registration holds once the cluster confirms it; else it is told of (`late`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sparkmirror import batches
from sparkmirror.batches.layout import CONTROL
from sparkmirror.copy.registrations import (
    Carrier,
    Refusal,
    Registration,
    doubt,
    overdue,
    registration,
    registrations,
    unconfirmed,
)
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.kafka.metadata import describe_topics
from sparkmirror.kafka.transactional_ids import can_be_asked, holder
from sparkmirror.model import NO_OFFSET
from sparkmirror.naming.topics import WRITERS_TOPIC
from sparkmirror.offsets.records import NotOursError

NO_PRODUCER = -1

CONFIRM_MS = 5_000
"""For the question about one writer. A coordinator that is away holds a partition up for no longer."""


class LeftOut(NamedTuple):
    """Batches of one producer that are dropped, since they came from the target, or that are not, though it is named.

    Attributes:
        producer_id: whose.
        batches: of each the offset behind it, and how many records it has, in order.
        first, last: source offsets.
        doubt: what is to be told of a producer that its cluster does not confirm, or "".
    """

    producer_id: int
    batches: tuple[tuple[int, int], ...]
    first: int
    last: int
    doubt: str = ""


def brought_from(cluster: Cluster, cluster_id: str, origin_id: str | None = None) -> frozenset[int]:
    """The producer ids with which flows have written to a cluster what came from another one, or through it.

    Args:
        cluster: whose registry is read.
        cluster_id: its id.
        origin_id: that of the other one; None for any.

    Raises:
        BrokerError: the registry cannot be read.
        LinkError: the cluster does not answer.
    """
    known = writers_to(cluster, cluster_id)
    return frozenset(one.producer_id for one in known if origin_id in (None, *one.origin, *one.carried))


def writers_to(cluster: Cluster, cluster_id: str) -> list[Registration]:
    """The registrations of the flows to a cluster, in the order of its registry.

    Raises:
        BrokerError: the registry cannot be read.
        LinkError: the cluster does not answer.
    """
    known = registrations(cluster.run(read_registry, Journal(cluster, WRITERS_TOPIC)))
    return [one for one in known if one.cluster == cluster_id]


async def read_registry(registry: Journal) -> list[Entry]:
    """The newest record of each key, in the order of the log; none where the cluster has no registry.

    Raises:
        BrokerError: it cannot be read.
        LinkError: the cluster does not answer.
    """
    view = (await describe_topics(registry.cluster, [registry.topic]))[registry.topic]
    if view.code == UNKNOWN_TOPIC_OR_PARTITION:
        return []
    entries, _ = await registry.read_all()
    return sorted(entries.values(), key=lambda entry: entry.offset)


class Origins:
    """What a lane knows of the producers in its source.

    Args:
        registry: of the cluster that is read from.
        carrier: the flow.
        needed: whether the cluster has a registry for certain, so that without it nothing may be copied.
        back: the name of the flow the other way.
    """

    def __init__(self, registry: Journal, carrier: Carrier, *, needed: bool = False, back: str = "") -> None:
        self.carrier = carrier
        self._back = back
        self._of_back: set[int] = set()
        self._journal = registry
        self._needed = needed
        self._next = 0
        self._known: set[int] = {NO_PRODUCER}
        self._loops: dict[int, Registration] = {}
        self._doubts: dict[int, str] = {}
        self._late: dict[int, Registration] = {}
        self._overdue: dict[int, str] = {}
        self._relayed: dict[int, Registration] = {}
        self._looked_up: dict[int, int] = {}
        self._broken: dict[str, int] = {}
        self.known = batches.producers(self._known)
        self.loops: npt.NDArray[np.int64] = batches.NO_PRODUCERS

    def unknown(self, index: batches.Indexed) -> dict[int, int]:
        """The producers that have to be looked up, each with its newest epoch in ``index``."""
        strangers = batches.unknown_producers(index, self.known).tolist()
        found = dict.fromkeys(strangers, NO_PRODUCER)
        if strangers or self._relayed:
            for producer_id, columns in _producers(index, {*strangers, *self._relayed}):
                newest = int(index.epoch[columns].max())
                if producer_id in found or newest > self._looked_up[producer_id]:
                    found[producer_id] = newest
        return found

    async def look_up(self, producers: Mapping[int, int]) -> None:
        """Reads the registry to its end; afterwards every one of ``producers`` is known up to its epoch.

        Raises:
            BrokerError: the registry cannot be read.
            LinkError: the source does not answer.
            SparkmirrorError: a registration of it cannot be read; the message says how to remove that. Records that
                are none, by their keys, are passed over.
        """
        topic, cluster = self._journal.topic, self._journal.cluster
        view = (await describe_topics(cluster, [topic]))[topic]
        absent = view.code == UNKNOWN_TOPIC_OR_PARTITION
        if absent and self._needed:
            raise SparkmirrorError(
                f"cluster {cluster.alias}: {topic} is not there any more: nothing tells copies from what others wrote"
            )
        end = 0 if absent else self._next + 1
        while self._next < end:
            entries, self._next, end = await self._journal.read(self._next)
            for entry in entries:
                self._take(entry)
        for key, offset in self._broken.items():
            raise SparkmirrorError(
                f"cluster {cluster.alias}: {topic}-0 at offset {offset} holds what no mirror has written under the key "
                f"{key[:200]}: nothing tells whose batches these are; write what it held before, or remove it with a "
                "record without a value under this key, see docs/internal-topics.md#records-of-others"
            )
        await self._confirm_late()
        await self._confirm(producers)
        self._known.update(producers)
        for producer_id, epoch in producers.items():
            self._looked_up[producer_id] = max(epoch, self._looked_up.get(producer_id, NO_PRODUCER))
        self.known = batches.producers(self._known)
        self.loops = batches.producers(set(self._loops))

    def left_out(self, index: batches.Indexed, first: int, end: int) -> Iterator[LeftOut]:
        """What is dropped of the batches that begin before ``end`` and do not lie below ``first``."""
        return _parts(index, first, end, self._loops, self._doubts)

    def late(self, index: batches.Indexed, first: int, end: int) -> Iterator[LeftOut]:
        """What is copied of them, though a registration that came too late, and is not confirmed, says otherwise."""
        return _parts(index, first, end, self._overdue, self._overdue)

    async def _confirm(self, producers: Collection[int]) -> None:
        """Asks the cluster whether those that will be dropped are the registered flows', once for each.

        Another partition's question may read on in the registry meanwhile, so it ends when none is left.
        """
        while unasked := [each for each in producers if each in self._loops and each not in self._doubts]:
            for producer_id in unasked:
                known = self._loops[producer_id]
                reason = await _reason_to_doubt(self._journal.cluster, known)
                self._doubts[producer_id] = unconfirmed(known, reason) if reason else ""

    async def _confirm_late(self) -> None:
        while self._late:
            producer_id, known = self._late.popitem()
            reason = await _reason_to_doubt(self._journal.cluster, known)
            if reason:
                self._overdue[producer_id] = overdue(known, reason)
            else:
                self._overdue.pop(producer_id, None)
                self._doubts[producer_id] = ""
                self._heed(known)

    def copies_end(self, index: batches.Indexed, end: int) -> int:
        """The offset behind the last batch of the flow the other way that begins before ``end``, or `NO_OFFSET`."""
        found = NO_OFFSET
        for _, columns in _producers(index, self._of_back):
            ends = index.last_offset[columns & (index.base_offset < end)]
            found = max(found, int(ends.max()) + 1 if len(ends) else NO_OFFSET)
        return found

    def refuses_home(self, index: batches.Indexed) -> Refusal | None:
        """As `refuses`, for a partition of which only what others wrote goes home."""
        for producer_id, columns in _producers(index, self._relayed):
            refusal = self.carrier.refuses_home(self._relayed[producer_id])
            if refusal is not None:
                return refusal._replace(text=f"source offset {int(index.base_offset[columns][0])}: {refusal.text}")
        return None

    def refuses(self, index: batches.Indexed, carried: frozenset[str]) -> Refusal | None:
        """Why batches of other mirrors in ``index`` may not be carried on, with the first of them, if they may not.

        Args:
            index: of producers that are known.
            carried: what the partition's writer epoch has been declared to carry.
        """
        for producer_id, columns in _producers(index, self._relayed):
            known, oldest = self._relayed[producer_id], int(index.epoch[columns].min())
            refusal = self.carrier.refuses(known, oldest, carried)
            if refusal is not None:
                return refusal._replace(text=f"source offset {int(index.base_offset[columns][0])}: {refusal.text}")
        return None

    def ways(self, index: batches.Indexed) -> dict[tuple[str, ...], npt.NDArray[np.bool_]]:
        """The clusters that batches of ``index`` have come through before the source, where their records do not tell.

        Returns:
            clusters, and the batches that have come through these.
        """
        found: dict[tuple[str, ...], npt.NDArray[np.bool_]] = {}
        for producer_id, columns in _producers(index, self._relayed):
            known = self._relayed[producer_id]
            for epoch in np.unique(index.epoch[columns]).tolist():
                way, these = self.carrier.way(known, epoch), columns & (index.epoch == epoch)
                if way:
                    found[way] = found[way] | these if way in found else these
        return found

    def _take(self, entry: Entry) -> None:
        self._broken.pop(entry.key, None)
        if entry.value is None:
            return
        try:
            known = registration(entry.key, entry.value)
        except NotOursError:
            return
        except ValueError:
            self._broken[entry.key] = entry.offset
            return
        if known is None or known.cluster != self.carrier.source_id:
            return
        if self._is_late(known):
            self._late[known.producer_id] = known
        else:
            self._heed(known)

    def _is_late(self, known: Registration) -> bool:
        """Whether its producer was looked up before, and no registration said then what this one does."""
        if known.producer_id not in self._known or known.producer_id in self._loops:
            return False
        return self.carrier.target_id in known.origin or known.producer_id not in self._relayed

    def _heed(self, known: Registration) -> None:
        if known.flow == self._back:
            self._of_back.add(known.producer_id)
        if self.carrier.target_id in known.origin:
            self._loops[known.producer_id] = known
        else:
            self._relayed[known.producer_id] = known
            self._looked_up.setdefault(known.producer_id, NO_PRODUCER)


async def _reason_to_doubt(cluster: Cluster, known: Registration) -> str:
    """Why a cluster does not confirm a registration, or ""; a question without an answer is a reason."""
    if not known.transactional_id:
        return "its registration does not name a group of partitions"
    if not can_be_asked(cluster):
        return "brokers before 3.0 do not tell to whom a producer id belongs"
    try:
        return doubt(known, await holder(cluster, known.transactional_id, CONFIRM_MS))
    except BrokerError as failure:
        if failure.code in UNAUTHORIZED:
            return "this user may not ask: allow DESCRIBE on TransactionalId with the prefix sparkmirror. there"
        return f"it does not tell ({failure.name})"
    except LinkError:
        return "its transaction coordinator did not answer"


def _parts(
    index: batches.Indexed, first: int, end: int, among: Mapping[int, object], doubts: Mapping[int, str]
) -> Iterator[LeftOut]:
    for producer_id, columns in _producers(index, among):
        these = columns & (index.last_offset >= first) & (index.base_offset < end)
        if these.any():
            yield LeftOut(
                producer_id,
                batches=tuple(zip((index.last_offset[these] + 1).tolist(), index.count[these].tolist(), strict=True)),
                first=int(index.base_offset[these][0]),
                last=int(index.last_offset[these][-1]),
                doubt=doubts.get(producer_id, ""),
            )


def _producers(
    index: batches.Indexed, among: Mapping[int, object] | set[int]
) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """The producers of an index that are ``among`` some, each with its batches; control batches do not count."""
    if not among:
        return
    data = (index.attributes & CONTROL) == 0
    for producer_id in np.unique(index.producer_id).tolist():
        if producer_id in among:
            columns = data & (index.producer_id == producer_id)
            if columns.any():
                yield producer_id, columns

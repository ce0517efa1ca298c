"""Where batches were born, by the producer id that wrote them: loop prevention under identity naming.

Each flow registers its producer ids, with the clusters that their batches come from, in
``sparkmirror.writers.internal`` of the cluster it writes to, before its first batch. A flow that reads that cluster
drops the batches whose origin contains its own target.

Invariant: a batch is copied only when the registry was read to its end after the batch was seen, or its producer was
known before. Registrations are never deleted, and name the cluster id, so a topic copied by other means does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sparkmirror import batches
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.kafka.metadata import describe_topics
from sparkmirror.model import Writer
from sparkmirror.naming.topics import WRITERS_TOPIC

NO_PRODUCER = -1
VERSION = 1


def writer_key(writer: Writer) -> str:
    """The key of a registration."""
    return json.dumps(["writer", writer.producer_id])


def writer_value(flow: str, cluster_id: str, origin: tuple[str, ...], group: int | None = None) -> str:
    """The value of a registration.

    Args:
        flow: whose producer id it is.
        cluster_id: of the cluster that is written to.
        origin: ids of the clusters that the batches have come through.
        group: of the flow's partitions that are written with it; earlier releases did not say.
    """
    value: dict[str, object] = {"v": VERSION, "flow": flow, "cluster": cluster_id, "origin": list(origin)}
    return json.dumps(value if group is None else value | {"group": group})


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One producer id: ``flow`` writes with it to ``cluster`` what has come through the clusters of ``origin``.

    ``group`` is which of its partitions, None where that is not said.
    """

    producer_id: int
    flow: str
    cluster: str
    origin: tuple[str, ...]
    group: int | None = None


def registration(key: str, value: str) -> Registration | None:
    """Reads one record of the registry; None for a kind, or a version, that a later release may have written.

    Raises:
        ValueError: the record is not one of ours.
    """
    try:
        name, data = json.loads(key), json.loads(value)
        if name[0] != "writer" or data["v"] != VERSION:
            return None
        return Registration(
            producer_id=int(name[1]),
            flow=data["flow"],
            cluster=data["cluster"],
            origin=tuple(data["origin"]),
            group=data.get("group"),
        )
    except (KeyError, IndexError, TypeError, ValueError) as failure:
        raise ValueError(f"not a record of {WRITERS_TOPIC}: key {key[:200]}") from failure


def ids_of_flow(entries: Iterable[Entry], flow: str, cluster_id: str, origin: tuple[str, ...]) -> dict[int, int | None]:
    """The producer ids that a flow was given, oldest first, each with its group of partitions where that is told.

    Args:
        entries: of the registry, in the order of the log; what is no registration is passed over.
        flow: the flow.
        cluster_id: of the cluster that is written to.
        origin: ids of the clusters that the batches have come through.
    """
    found: dict[int, int | None] = {}
    for entry in entries:
        with suppress(ValueError):
            known = registration(entry.key, entry.value) if entry.value is not None else None
            if known is None:
                continue
            if (known.flow, known.cluster, set(known.origin)) == (flow, cluster_id, set(origin)):
                found.pop(known.producer_id, None)
                found[known.producer_id] = known.group
    return found


class Origins:
    """What a lane knows of the producers in its source.

    Args:
        registry: of the cluster that is read from.
        source_id, target_id: cluster ids of the flow.
    """

    def __init__(self, registry: Journal, source_id: str, target_id: str) -> None:
        self._journal = registry
        self._source_id = source_id
        self._target_id = target_id
        self._next = 0
        self._known: set[int] = {NO_PRODUCER}
        self._loops: set[int] = set()
        self._relayed: dict[int, str] = {}
        self._foreign: set[str] = set()
        self.known = batches.producers(self._known)
        self.loops: npt.NDArray[np.int64] = batches.NO_PRODUCERS

    async def look_up(self, producer_ids: list[int]) -> None:
        """Reads the registry to its end; afterwards every one of ``producer_ids`` is known.

        Raises:
            BrokerError: the registry cannot be read.
            LinkError: the source does not answer.
            SparkmirrorError: it holds what is not a registration; the message says how to remove that.
        """
        topic, cluster = self._journal.topic, self._journal.cluster
        view = (await describe_topics(cluster, [topic]))[topic]
        end = 0 if view.code == UNKNOWN_TOPIC_OR_PARTITION else self._next + 1
        while self._next < end:
            entries, self._next, end = await self._journal.read(self._next)
            for entry in entries:
                self._take(entry)
        if self._foreign:
            raise SparkmirrorError(
                f"cluster {cluster.alias}: {topic} holds what no mirror has written: key {min(self._foreign)[:200]}; "
                f"write a record without a value under this key to remove it"
            )
        self._known.update(producer_ids)
        self.known = batches.producers(self._known)
        self.loops = batches.producers(self._loops)

    def relayed(self, index: batches.Indexed) -> str:
        """Says which other mirror's batches are in ``index``, or ""; a chain needs an origin of its own for them."""
        if not self._relayed:
            return ""
        for producer_id in np.unique(index.producer_id).tolist():
            if producer_id in self._relayed:
                return self._relayed[producer_id]
        return ""

    def _take(self, entry: Entry) -> None:
        self._foreign.discard(entry.key)
        if entry.value is None:
            return
        try:
            known = registration(entry.key, entry.value)
        except ValueError:
            self._foreign.add(entry.key)
            return
        if known is None or known.cluster != self._source_id:
            return
        if self._target_id in known.origin:
            self._loops.add(known.producer_id)
        else:
            self._relayed[known.producer_id] = known.flow

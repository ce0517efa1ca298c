"""The producer ids of a flow in the order of their registration, for duties that read the offset map."""

from __future__ import annotations

from sparkmirror.copy.registrations import ids_of_flow
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.records import FlowRecord


class KnownWriters:
    """Reads the register of writers when an id turns up that it has not read yet.

    Args:
        target: the cluster that the flow writes to.
        flow: the flow's name.
        timeout_ms: of the reading.
    """

    def __init__(self, target: Cluster, flow: str, timeout_ms: int) -> None:
        self._target = target
        self._flow = flow
        self._timeout_ms = timeout_ms
        self._ids: tuple[int, ...] = ()

    def ids(self, record: FlowRecord, seen: set[int]) -> tuple[int, ...]:
        """The ids.

        Args:
            record: of the flow.
            seen: ids that have turned up.

        Raises:
            BrokerError: the register cannot be read.
            LinkError: the target does not answer.
        """
        if not seen.issubset(self._ids):
            entries, _ = self._target.run(Journal(self._target, WRITERS_TOPIC).read_all, self._timeout_ms)
            in_order = sorted(entries.values(), key=lambda entry: entry.offset)
            self._ids = tuple(ids_of_flow(in_order, self._flow, record.target_id, (record.source_id,)))
        return self._ids

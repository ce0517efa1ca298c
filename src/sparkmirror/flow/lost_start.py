"""What is known of a flow whose internal topic has lost the record of each of its starts.

The record says which clusters the flow is about, and how copies are named. A failover needs no more: without a clean
end nothing on record is believed, and the target's logs are read. Registrations of the producer ids that are on record
name the source, which the target's registry of writers keeps in another topic, and so does what was seen of groups; a
copy whose topic id is on record shows that it is named as the configuration says.

Invariant: where these do not agree, or nothing tells, there is no such record: a flow is never taken for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import read_registry
from sparkmirror.copy.registrations import Registration, registrations
from sparkmirror.duties.topics import remote_topic
from sparkmirror.flow.flow_record import record_of
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import FlowName
from sparkmirror.naming import WRITERS_TOPIC, internal_topic
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.offsets.state import JournalState


def find(config: FlowConfig, target: Cluster, state: JournalState) -> FlowRecord | None:
    """The flow's record, as far as other records tell it; None where they do not.

    Args:
        config: of the flow.
        target: where its internal topic is.
        state: of that topic, which lacks the record.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    timeout_ms = config.admin_timeout_ms
    known = registrations(target.run(read_registry, Journal(target, WRITERS_TOPIC)))
    ids = ids_of_topics(target, {remote_topic(config, place.topic) for place in state.progress}, timeout_ms)
    return decide(config, admin.cluster_id(target, timeout_ms), known, ids, state)


def decide(
    config: FlowConfig,
    target_id: str,
    known: Iterable[Registration],
    ids: Mapping[str, str],
    state: JournalState,
) -> FlowRecord | None:
    """As `find`. Pure.

    Args:
        config: of the flow.
        target_id: of the cluster.
        known: what its registry of writers says.
        ids: of the topics there that copies would have.
        state: of the flow's internal topic.
    """
    written = {writer.producer_id for writer in state.writers()}
    name = str(config.name)
    sources = {
        one.origin for one in known if (one.flow, one.cluster) == (name, target_id) and one.producer_id in written
    }
    if state.groups_seen is not None and state.groups_seen.origin.cluster_id:
        sources.add((state.groups_seen.origin.cluster_id,))
    copied = any(
        one.target_id and ids.get(remote_topic(config, place.topic)) == one.target_id
        for place, one in state.progress.items()
    )
    if not copied or [len(origin) for origin in sources] != [1]:
        return None
    ((source_id,),) = sources
    return record_of(config, source_id, target_id)


def said(name: FlowName) -> str:
    """What an operation tells that goes by such a record."""
    return (
        f"{internal_topic(name)} has lost the record of the flow's start, and what was there before: which cluster "
        f"{name} copies from is known by its registrations on {name.target}, what it has copied by what is left and "
        f"by the logs there. What was known of groups may be lost or old, and no place is called exact"
    )

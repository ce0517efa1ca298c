"""Names of topics: how they change, which are copied, which are our own."""

from sparkmirror.naming.choosing import policy_for
from sparkmirror.naming.filters import (
    ConfigPropertyFilter,
    TopicFilter,
    append_filter,
    config_property_filter,
    group_filter,
    topic_filter,
)
from sparkmirror.naming.lineage import Lineage, lineage
from sparkmirror.naming.policies import (
    HEARTBEATS_TOPIC,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from sparkmirror.naming.topics import (
    MAX_TOPIC_NAME,
    WRITERS_TOPIC,
    Decision,
    control_topic,
    homeward_original,
    internal_topic,
    should_replicate,
)
from sparkmirror.naming.upstream import NO_WAY, hops, sources

__all__ = [
    "HEARTBEATS_TOPIC",
    "MAX_TOPIC_NAME",
    "NO_WAY",
    "WRITERS_TOPIC",
    "ConfigPropertyFilter",
    "Decision",
    "DefaultReplicationPolicy",
    "IdentityReplicationPolicy",
    "Lineage",
    "ReplicationPolicy",
    "TopicFilter",
    "append_filter",
    "config_property_filter",
    "control_topic",
    "group_filter",
    "homeward_original",
    "hops",
    "internal_topic",
    "lineage",
    "policy_for",
    "should_replicate",
    "sources",
    "topic_filter",
]

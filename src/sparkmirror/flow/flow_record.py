"""What the record of a flow says of its clusters and of how copies are named, as the flow is configured. Pure."""

from __future__ import annotations

from sparkmirror.config import FlowConfig, PolicyKind
from sparkmirror.offsets.records import FlowRecord


def naming_of(config: FlowConfig) -> str:
    """The replication policy, for the record."""
    policy = config.policy
    return f"{policy.name} {policy.separator}" if policy.kind is PolicyKind.DEFAULT else policy.name


def record_of(config: FlowConfig, source_id: str, target_id: str) -> FlowRecord:
    """The record of a flow of which no start is known: generation 0.

    Args:
        config: of the flow.
        source_id: of its source.
        target_id: of its target.
    """
    return FlowRecord(
        source_alias=config.source.alias,
        source_id=source_id,
        target_alias=config.target.alias,
        target_id=target_id,
        naming=naming_of(config),
        generation=0,
    )

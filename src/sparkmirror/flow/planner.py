"""Plans for partitions: asks the clusters for what `positions` decides from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.config import AutoOffsetReset, FlowConfig
from sparkmirror.duties.topics import Round
from sparkmirror.flow.positions import Known, Resumed, Start, TargetFacts, decide_start
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import MAX_MESSAGE_BYTES, Copied, TopicPartition, Writer
from sparkmirror.offsets.records import Progress

Pairs = Sequence[tuple[TopicPartition, TopicPartition]]

_CODECS = {"uncompressed": "none", **{name: name for name in ("gzip", "snappy", "lz4", "zstd")}}
"""A topic's ``compression.type`` as its batches have it; ``producer`` leaves them as they come."""


def starts_of(
    config: FlowConfig,
    source: Cluster,
    target: Cluster,
    pairs: Pairs,
    observed: Round,
    *,
    progress: Mapping[TopicPartition, Progress],
    writers: Sequence[Writer],
    copied: Mapping[TopicPartition, Copied],
    resumed: Mapping[TopicPartition, Resumed],
    once: bool,
) -> tuple[tuple[Start, ...], dict[TopicPartition, str]]:
    """Decides where each pair begins.

    Args:
        config: of the flow.
        source: asked for offsets.
        target: asked for configs.
        pairs: source and target partitions.
        observed: the round of the topics duty that found them.
        progress: the newest of each partition.
        writers: one for each group.
        copied: what this run did so far.
        resumed: where those go on that were handed out before.
        once: whether the copy ends at the source's present end.

    Returns:
        the starts, and the partitions that cannot begin now with the reason.
    """
    sources = [source_partition for source_partition, _ in pairs]
    oldest = admin.find_offsets(source, sources, OffsetSpec.EARLIEST, timeout_ms=config.admin_timeout_ms)
    ends = admin.find_offsets(
        source, sources, OffsetSpec.LATEST, isolation=config.isolation, timeout_ms=config.admin_timeout_ms
    )
    latest = config.auto_offset_reset is AutoOffsetReset.LATEST
    known = Known(
        progress=progress,
        topic_ids={name: _topic_id(topic.topic_id) for name, topic in observed.observed.source.items()},
        starts=ends.found if latest else oldest.found,
        oldest=oldest.found,
        ends=ends.found if once else {},
        targets=_facts(config, target, sorted({there.topic for _, there in pairs})),
        writers=writers,
        copied=copied,
        resumed=resumed,
    )
    failed = {p: str(error) for p, error in (*oldest.failed.items(), *ends.failed.items())}
    starts = tuple(
        decide_start(here, there, known) for here, there in pairs if here not in failed and there.topic in known.targets
    )
    unreadable = {
        here: f"the configs of {there.topic} cannot be read"
        for here, there in pairs
        if there.topic not in known.targets
    }
    return starts, unreadable | failed


def _facts(config: FlowConfig, target: Cluster, topics: Sequence[str]) -> dict[str, TargetFacts]:
    described = admin.describe_configs(target, topics, config.admin_timeout_ms)
    return {
        name: TargetFacts(
            max_message_bytes=int(entries["max.message.bytes"].value or MAX_MESSAGE_BYTES),
            log_append_time=entries["message.timestamp.type"].value == "LogAppendTime",
            codec=_CODECS.get(entries["compression.type"].value or "", ""),
        )
        for name, entries in described.found.items()
    }


def _topic_id(identity: object) -> str:
    hexadecimal = getattr(identity, "hex", "")
    return "" if not hexadecimal or int(hexadecimal, 16) == 0 else str(hexadecimal)

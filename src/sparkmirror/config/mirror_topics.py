"""What a flow writes to MirrorMaker 2's own topics; the defaults are MirrorMaker 2's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Side(Enum):
    """One of a flow's clusters."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Heartbeats.

    Attributes:
        enabled: whether they are emitted to the target.
        interval_s: how often.
        replication_factor: of their topic, should it have to be created; -1 means the broker's default.
    """

    enabled: bool = True
    interval_s: float = 1.0
    replication_factor: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSyncSettings:
    """Offset syncs.

    Attributes:
        enabled: whether they are written.
        location: the cluster that their topic is on.
        replication_factor: of their topic, should it have to be created; -1 means the broker's default.
        lag_max: a partition's newest one may be so many records behind while it moves.
    """

    enabled: bool = True
    location: Side = Side.SOURCE
    replication_factor: int = 3
    lag_max: int = 100

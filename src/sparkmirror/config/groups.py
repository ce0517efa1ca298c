"""What a flow is told about consumer groups."""

from __future__ import annotations

from dataclasses import dataclass

GROUPS_EXCLUDE = ("console-consumer-.*", "connect-.*", "__.*")
"""MirrorMaker 2's ``groups.exclude``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Which groups are translated, and what becomes of their offsets.

    Attributes:
        include: regular expressions, each of which must match a whole group name; ``groups``.
        exclude: the same; an exclude wins; ``groups.exclude``.
        refresh_enabled: whether new groups are looked for.
        refresh_interval_s: how often.
        checkpoints_enabled: whether translated offsets are written to MirrorMaker 2's checkpoints topic.
        checkpoints_interval_s: how often.
        checkpoints_replication_factor: of that topic, should it have to be created; -1 means the broker's default.
        sync_enabled: whether translated offsets are committed on the target.
        sync_interval_s: how often.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = GROUPS_EXCLUDE
    refresh_enabled: bool = True
    refresh_interval_s: float = 600.0
    checkpoints_enabled: bool = True
    checkpoints_interval_s: float = 60.0
    checkpoints_replication_factor: int = 3
    sync_enabled: bool = False
    sync_interval_s: float = 5.0

"""What is told where groups go by what was seen of them long before the flow saw the source last. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.duties.chosen_groups import chooser, on_record
from sparkmirror.events import wall_time
from sparkmirror.failover.plan import some
from sparkmirror.failover.unfollowed import Since
from sparkmirror.model import FlowName
from sparkmirror.offsets.group_records import GroupsSeen
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.state import JournalState

INTERVALS, LEAST_MS = 5, 120_000
"""What is older by so many intervals, and by so long at least, is no round that was just due."""


def not_followed(flow: FlowConfig) -> str:
    """Why the flow puts no groups on record, as it is configured; "" where it does."""
    told = flow.groups
    if told.checkpoints_enabled or told.sync_enabled or not told.include:
        return ""
    return (
        f"{flow.name} does not put on record what groups have committed, since emit.checkpoints.enabled and "
        "sync.group.offsets.enabled are false: once the source is gone a failover takes groups to where they were when "
        "an operation asked last, and others nowhere (emit.checkpoints.enabled=true puts them on record)"
    )


def said_of(flow: FlowConfig, state: JournalState, asked_ms: int) -> tuple[str, ...]:
    """What is told of an operation that the source does not answer.

    Args:
        flow: the flow, as it is configured.
        state: of its internal topic.
        asked_ms: groups that were asked since then are where they are now.
    """
    seen = state.groups_seen
    off = "" if seen is not None and seen.time_ms >= asked_ms else not_followed(flow)
    old = seen_long_ago(flow, state)
    source, (group, at) = flow.source.alias, min(old.items(), key=lambda one: one[1], default=("", 0))
    since = f"that of {group} at {wall_time(at)}" if at else f"that of {group} never"
    long_ago = (
        f"what {len(old)} groups had committed was seen on {source} long before {flow.name} saw it last, {since}: what "
        f"they have read since is read again, and what they have set back is skipped: {some(sorted(old))}"
    )
    return (*((off,) if off else ()), *((long_ago,) if old else ()))


def said_of_returned(found: Mapping[str, str], source: str, target: str) -> tuple[str, ...]:
    """What is told where groups go to the target by what was on record when the flow was held, a line for each cause.

    Args:
        found: groups, and the operation of the flow back that has brought each of them to the source since.
        source: of the flow.
        target: of the flow.
    """
    by_cause = {by: sorted(name for name, one in found.items() if one == by) for by in sorted(set(found.values()))}
    return tuple(
        f"{len(names)} groups were brought back to {source} by {by} while {source}->{target} was held, and what they "
        f"did there is not on record: what they have read on {source} since is read again, what they have set back is "
        f"skipped, and what {source} took since the hold is not on {target}: {some(names)}"
        for by, names in by_cause.items()
    )


def said_of_unfollowed(found: Since, groups: Collection[str], flow: FlowName) -> tuple[str, ...]:
    """What is told where nobody knows what groups did on the source since the flow was held.

    Args:
        found: what has held the flow, and since when.
        groups: these groups.
        flow: the flow.
    """
    if not groups:
        return ()
    reason, held_ms, _ = found
    source, target = flow.source, flow.target
    what = f"what {len(groups)} groups have done on {source} since is not on record"
    where = f"those that were there, since an operation of {flow.back} has brought them back or they had never left"
    then = f"read again what they have read there, and skip what they have set back; what {source} took is not on"
    names = some(sorted(groups))
    since = f"{flow} was stopped at {wall_time(held_ms)} by {reason}"
    return (f"{since}, and {what}: {where}, {then} {target}, and groups that are new there are not known: {names}",)


def seen_long_ago(flow: FlowConfig, state: JournalState) -> dict[str, int]:
    """The groups that were seen long before the source was, and when, milliseconds since 1970."""
    life = UNKNOWN_MS if state.life is None else state.life.recovery_ms
    last_ms = max(life, *(one.recovery_ms for one in state.progress.values()), UNKNOWN_MS)
    before_ms = last_ms - max(LEAST_MS, int(1000 * INTERVALS * flow.groups.sync_interval_s))
    seen, chosen = state.groups_seen or GroupsSeen(time_ms=0), chooser(flow, state)
    return {
        group: seen.read_ms(group)
        for group in sorted(on_record(state))
        if chosen(group) and seen.read_ms(group) < before_ms
    }

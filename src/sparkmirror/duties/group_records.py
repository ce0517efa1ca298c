"""Puts on record what groups have committed on the source, for the day when it cannot be asked any more.

Checkpoints tell of groups that the mirror has passed, at their own interval; a failover wants the last word of each
group, of those that are ahead of the mirror too, and how old it is.

Invariants: what is written is what the source answered; a group that is gone leaves the record; one whose offsets
cannot be read keeps what is known of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.duties.duty import Result, Sides
from sparkmirror.duties.groups import Unreadable, refusal
from sparkmirror.events import now_ms
from sparkmirror.kafka.groups import Offsets, fetch_offsets, list_groups
from sparkmirror.offsets.group_records import GroupSeen, GroupsSeen


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """What is new.

    Attributes:
        seen: what groups have committed, where it has changed.
        gone: the keys of records that hold no more.
        at: when the source was asked.
    """

    seen: tuple[GroupSeen, ...]
    gone: tuple[str, ...]
    at: GroupsSeen

    @property
    def change(self) -> None:
        """It happens all the time and changes no setting."""
        return


Action = Remember | Unreadable


class GroupRecords:
    """The duty of one flow."""

    name = "groups on record"

    def __init__(self, sides: Sides) -> None:
        told = sides.flow.groups
        self.interval_s = told.sync_interval_s if told.sync_enabled or told.checkpoints_enabled else None
        self._sides = sides

    def look(self) -> Sequence[Action]:
        """Asks the source, and compares with what is on record.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or an expression of the flow cannot be used.
        """
        sides, timeout_ms = self._sides, self._sides.flow.admin_timeout_ms
        listed = list_groups(sides.source, timeout_ms)
        chosen = [name for name, listing in listed.items() if refusal(sides.flow, listing) is None]
        at = now_ms()
        fetched = fetch_offsets(sides.source, chosen, timeout_ms)
        known: Mapping[str, GroupSeen] = {}
        if sides.store is not None:
            sides.store.follow()
            known = sides.store.state.groups
        unreadable = {name: str(failure) for name, failure in fetched.failed.items()}
        return decide(known, fetched.found, unreadable, at)

    def apply(self, actions: Sequence[Action]) -> Sequence[Result]:
        """Writes what is new.

        Raises:
            SparkmirrorError: the target cannot be written to.
        """
        assert self._sides.store is not None  # a flow that does its duties was started
        results = []
        for action in actions:
            if isinstance(action, Remember):
                self._sides.store.write([*action.seen, action.at], tombstones=action.gone)
                results.append(Result(action=action))
            else:
                results.append(Result(action=action, failure=f"group {action.group}: {action.reason}"))
        return results


def decide(
    known: Mapping[str, GroupSeen], found: Mapping[str, Offsets], unreadable: Mapping[str, str], at_ms: int
) -> tuple[Action, ...]:
    """What is to be written.

    Args:
        known: what is on record, by key.
        found: what the source answered, by group.
        unreadable: why it did not, by group.
        at_ms: when it was asked, milliseconds since 1970.
    """
    present = {seen.key: seen for group, offsets in found.items() for seen in records_of(group, offsets, at_ms)}
    seen = [one for key, one in present.items() if key not in known or known[key].offsets != one.offsets]
    gone = [key for key, one in known.items() if key not in present and one.group not in unreadable]
    remember = Remember(seen=tuple(seen), gone=tuple(sorted(gone)), at=GroupsSeen(time_ms=at_ms))
    return (remember, *(Unreadable(group=group, reason=reason) for group, reason in sorted(unreadable.items())))


def records_of(group: str, offsets: Offsets, at_ms: int) -> tuple[GroupSeen, ...]:
    """What a group has committed, a record for each topic.

    Args:
        group: its name.
        offsets: what it has committed.
        at_ms: when that was seen, milliseconds since 1970.
    """
    topics: dict[str, dict[int, tuple[int, str]]] = {}
    for place, committed in offsets.items():
        topics.setdefault(place.topic, {})[place.partition] = (committed.offset, committed.metadata)
    return tuple(GroupSeen(group=group, topic=topic, offsets=topics[topic], time_ms=at_ms) for topic in sorted(topics))

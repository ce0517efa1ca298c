"""Producer ids of a flow: what follows from what the transaction coordinator handed out.

Pure. A flow has a few producer ids, each for a group of its partitions, and each with an epoch that only rises.

Invariants:
    - A producer id can be fenced only while the coordinator knows it. It forgets a transactional id that saw no
      transaction operation for ``transactional.id.expiration.ms`` (7 days by default; writing is none), and it leaves
      an id behind whose epochs are spent. Then it hands out another id, and nothing shuts the old one out any more.
    - The last epoch that is handed out is 32,766; the one above it is kept for the coordinator's own fence. So ids are
      changed long before, when all partitions of the group are drained.
    - No epoch is used twice. A coordinator whose log has lost its end hands out epochs again that lanes have written
      with: their sequence numbers, and their entries of the offset map, would begin once more under the same keys. So
      it is asked again until the epoch is above all that are known.
    - Each start of a flow takes the next epoch of every id. So the coordinator, whose log is not the flow's internal
      topic, knows of starts of which that topic has lost every record.

Reference: ``TransactionMetadata.isEpochExhausted``, ``TransactionCoordinator.handleInitProducerId`` (KIP-360).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.model import Writer

LAST_EPOCH = 32_766
ROTATE_FROM = 32_000
KEEP_ALIVE_SECONDS = 6 * 3_600.0

REACH = 50
"""Epochs that a coordinator may have forgotten and that only leaders know: of some starts and takeovers. One further
ahead is somebody's forgery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfenceable:
    """The coordinator hands out another producer id than the newest on record: who still writes with ``old`` stays.

    Before anybody writes with the new id, the lanes of the old one have to be surely dead, and the targets' tails read
    before and after that wait.
    """

    old: int


class WayToFence(Enum):
    """How the older epochs of a producer id are shut out."""

    RAISE = "take the next epoch, then fence with it"
    SPEND = "fence with the epoch that is held, and end the transaction by taking the next producer id"


def way_to_fence(newest: Writer) -> WayToFence:
    """Says how to fence with the id of ``newest``, the newest writer that the coordinator has handed out for it."""
    return WayToFence.RAISE if newest.epoch < LAST_EPOCH else WayToFence.SPEND


def must_rotate(newest: Writer) -> bool:
    """Whether the group needs another producer id, as soon as its partitions are drained."""
    return newest.epoch >= ROTATE_FROM


def can_be_kept_alive(newest: Writer) -> bool:
    """Whether an epoch may be spent on that: after the last one another producer id would come."""
    return newest.epoch < LAST_EPOCH


def newest_epochs(writers: Iterable[Writer]) -> dict[int, int]:
    """The newest epoch of each producer id."""
    newest: dict[int, int] = {}
    for writer in writers:
        newest[writer.producer_id] = max(writer.epoch, newest.get(writer.producer_id, writer.epoch))
    return newest


def last_before(ids: Iterable[int], first: Iterable[Writer]) -> tuple[Writer, ...]:
    """The newest writer of each producer id that may have written before ``first`` were handed out."""
    given = newest_epochs(first)
    lasts = (Writer(producer_id=each, epoch=given.get(each, LAST_EPOCH + 2) - 1) for each in ids)
    return tuple(one for one in lasts if one.epoch >= 0)


def came_since(writer: Writer, ids: Collection[int], before: Iterable[Writer]) -> bool:
    """Whether a writer is one of these producer ids, and newer than those of ``before``."""
    return writer.producer_id in ids and writer.epoch > newest_epochs(before).get(writer.producer_id, -1)


def was_given_before(given: Writer, newest: Mapping[int, int]) -> bool:
    """Whether the coordinator has handed out an epoch that is not above all that are known of its producer id."""
    return given.epoch <= newest.get(given.producer_id, given.epoch - 1)


def forgotten(given: Writer, leaders: Iterable[int]) -> int | None:
    """The newest epoch that the coordinator can have forgotten, of those that leaders know of a producer id.

    Args:
        given: what it has handed out.
        leaders: the epochs that leaders know.

    Returns:
        None where they know none that is not below the one handed out, or only such as somebody has forged.
    """
    return max((epoch for epoch in leaders if given.epoch <= epoch <= given.epoch + REACH), default=None)


def due(renewed: Mapping[int, float], now: float) -> tuple[int, ...]:
    """The groups whose transactional id saw no operation for six hours.

    Args:
        renewed: group to when the last one was, in seconds.
        now: on the same clock.
    """
    return tuple(sorted(group for group, then in renewed.items() if now - then >= KEEP_ALIVE_SECONDS))


def runs_between(given: Iterable[Writer], ended: Iterable[Writer]) -> bool:
    """Whether a run had the flow between the clean end that is on record and this start.

    Args:
        given: the writer of each group that this start got.
        ended: the newest writer of each group as of the clean end; empty where an earlier release wrote it. Of an id
            that the coordinator has forgotten, or whose epochs are spent, nothing is known.
    """
    then = {writer.producer_id: writer.epoch for writer in ended}
    return any(writer.epoch != then.get(writer.producer_id, writer.epoch - 1) + 1 for writer in given)


def ran_since(held: Iterable[Writer], ended: Iterable[Writer]) -> bool:
    """Whether a run has had the flow since the clean end that is on record, while nobody has asked for epochs yet.

    Args:
        held: the newest writer of each group that the coordinator knows; each start gets the next epoch.
        ended: as in `runs_between`.
    """
    return runs_between((replace(writer, epoch=writer.epoch + 1) for writer in held), ended)


def check(given: Writer, on_record: int | None) -> Unfenceable | None:
    """Compares what the coordinator handed out with the newest producer id on record of the group.

    Args:
        given: the answer to a wish for the next epoch, not to one for another id.
        on_record: None where nothing was ever written.
    """
    if on_record is None or on_record == given.producer_id:
        return None
    return Unfenceable(old=on_record)

"""Back to the cluster that was left, when it is there again: what its flow and the flow back to it have to do with it.

Two flows take part: *forth*, which copied from the cluster that came back and has been stopped since, and *back*, which
brings there what was written meanwhile and has to run. The operation is on forth's record, which lies where
applications are now.

Invariants: what only the cluster that came back has is known, and put aside, before a group is moved; groups go by the
maps of both flows; forth goes on only at the end, behind what was put aside. No group is placed while a commit that the
flow back has decided on before may still come (`duties.flow_back`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.empty_partitions import ends_of_empty
from sparkmirror.duties.flow_back import LANDED_SECONDS, placed_in
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_groups import Merged, ask_with_lost, not_known, parted_in, with_lost
from sparkmirror.duties.rings import Rings
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover import (
    brought,
    comparison,
    divergence,
    doubt,
    homeward,
    lifted,
    look,
    moves,
    own_topics,
    plan,
    unbrought,
)
from sparkmirror.failover.brought_back import with_row
from sparkmirror.failover.comparison import Comparison
from sparkmirror.failover.divergence import Divergent
from sparkmirror.failover.earlier import earlier_in, told_of_again
from sparkmirror.failover.homeward import HomewardSight, Way
from sparkmirror.failover.moves import GroupMove
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.own_topics import told_of_strange
from sparkmirror.failover.procedure import LOOK_SECONDS, Options, Procedure
from sparkmirror.failover.states import (
    APART,
    BROUGHT,
    COMMITTING,
    GONE,
    HOME_FENCE,
    STRANGE,
    TAKEN_BACK,
    Keep,
    Step,
    file_name,
    holders,
)
from sparkmirror.failover.tried import places_in, unsure_in
from sparkmirror.failover.unfinished import is_overtaken, told_of_unfinished, unfinished_of
from sparkmirror.flow.sides import record
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import Offsets
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.open_transactions import open_below
from sparkmirror.kafka.store import Store
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits, landed, merged
from sparkmirror.offsets.group_records import FlowCommit, GroupSeen, GroupsSeen, commits_of, tried_of
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HOLD_KEY, MoveOrder
from sparkmirror.offsets.state import JournalState

SHOWN = 10
NOTHING_COMMITTED = FlowCommit(NO_OFFSET, NO_OFFSET)

AT_ONCE_SECONDS = 5.0
"""A command that was broken off between looking at groups and letting the flow go on looks at them again."""


class Failback:
    """One operation.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        file: the configuration file, for messages.
        operator: who has the operation.
        tell: is given what is being done.
        directory: of exported records.
    """

    def __init__(
        self,
        forth: Sides,
        back: Sides,
        file: str,
        operator: Operator,
        tell: Callable[[str], None],
        directory: str = "",
    ) -> None:
        assert forth.store is not None  # a flow that was never started has no operation
        self._forth, self._back, self._file = forth, back, file
        self._store: Store = forth.store
        self._operator = operator
        self._tell = tell
        self._directory = directory
        self._procedure = Procedure(
            back,
            file,
            operator,
            tell,
            homeward=True,
            unbegun=lambda: unbrought.unbegun(forth, back),
            announce=self._take_back,
        )
        self._outward = Procedure(forth, file, operator, tell)
        self._looked = -math.inf  # when this process has looked at groups, by its own clock
        self._own_steps: dict[Step, Callable[[Operation], None]] = {
            Step.COMPARING: self._compare,
            Step.SAVING: self._save,
            Step.MOVING: self._move,
            Step.VERIFYING: self._verify,
            Step.RELEASING: self._release,
            Step.UNDOING: self._undo,
        }

    def do(self, step: Step, operation: Operation) -> None:
        """Does one step, which may have been done before.

        Raises:
            SparkmirrorError: it could not be done.
        """
        if step in self._own_steps:
            self._own_steps[step](self._without_strange(operation))
        else:
            self._procedure.do(step, operation)

    def _own(self, names: Collection[str]) -> frozenset[str]:
        """The topics of the cluster that came back that the flow from there has to do with."""
        return own_topics.at_source(self._forth.flow, self._store.state.progress, names)

    def _seen(self, operation: Operation) -> Comparison:
        """What was compared, as it is on record of the flow's own topics."""
        seen = Comparison.of(operation.facts)
        own = self._own({one.partition.topic for one in seen.found})
        return replace(seen, found=tuple(one for one in seen.found if one.partition.topic in own))

    def _without_strange(self, operation: Operation) -> Operation:
        """Takes from the record, and tells, what it has of topics that the flow has nothing to do with."""
        seen, own = Comparison.of(operation.facts), self._seen(operation)
        names = sorted({one.partition.topic for one in seen.found} - {one.partition.topic for one in own.found})
        if not names:
            return operation
        for text in told_of_strange(names, str(self._forth.flow.name), operation.source):
            self._tell(text)
        rows = [*operation.facts.get(STRANGE, []), *([operation.source, name] for name in names)]
        return self._operator.note(divergent=[one.row for one in own.found], **{STRANGE: rows})

    def _compare(self, operation: Operation) -> None:
        """Finds what only the cluster that came back has."""
        self._check_back()
        seen = self._compared(operation)
        self._tell_of(seen.found, operation)
        self._operator.note(**seen.facts, names=names(self._forth, self._back))
        if comparison.shares_topics(self._forth, self._back):
            self._let_in(operation)  # the flow back writes to the very topics

    def _compared(self, operation: Operation) -> Comparison:
        """Compares when no transaction is open on the cluster that came back."""
        there, patience = operation.source, Options.of(operation.facts).timeout_s
        lacks: list[str] = []
        if doubt.settle_held(self._forth, self._file, self._operator.prove, lacks.append):
            self._tell(f"a run of {self._forth.flow.name} did not end cleanly: the logs of its copies were read")
            doubt.note_lacks(self._operator, lacks, self._tell)
        epochs, ends = comparison.leader_epochs(self._forth), comparison.ends(self._forth)
        timeout_ms = self._forth.flow.admin_timeout_ms
        if still := open_below(self._forth.source, ends, 0, timeout_ms):
            self._tell(f"{open_in(still[0], there)}; it is waited for")
            still = open_below(self._forth.source, ends, int(patience * 1000), timeout_ms)
        if still:
            raise SparkmirrorError(
                f"after {patience:g} s {open_in(still[0], there)} (--abandon takes the operation back)"
            )
        seen = comparison.compare(self._forth, self._back, ends, epochs)
        for text in seen.troubles(self._back.flow.source.alias, there):
            self._tell(text)
        return seen

    def _tell_of(self, found: Sequence[Divergent], operation: Operation) -> None:
        for one in found[:SHOWN]:
            self._tell(f"{one.partition}: offsets {one.first} to {one.end - 1} are on {operation.source} only")
        if len(found) > SHOWN:
            self._tell(f"… and {len(found) - SHOWN} more; the report has all")

    def _save(self, operation: Operation) -> None:
        """Puts it aside, as it was asked for."""
        if self._lost_since(self._seen(operation).found):
            operation = self._compare_again(operation)
        self._put_aside(operation)

    def _lost_since(self, found: Sequence[Divergent]) -> dict[TopicPartition, int]:
        return divergence.lost_since(self._forth.source, found, self._forth.flow.admin_timeout_ms)

    def _compare_again(self, operation: Operation) -> Operation:
        """Finds what has come meanwhile to the cluster that came back, and whether its logs are those compared before.

        Where a log is another one, all that its topic has is found as a new part: what is kept of the older one stays.
        When groups have been moved applications may be there, and the flow copies what they write: nothing is added but
        what lies in place of copies that the cluster has lost.
        """
        before, now = self._seen(operation), self._compared(operation)
        again = {name for name in now.recreated if before.ids.get(name, now.ids[name]) != now.ids[name]}
        again |= set(now.recreated) - set(before.recreated)
        if _are_moved(operation):
            return self._left_to_the_flow(operation, now, again)
        again |= {place.topic for place in self._lost_since(before.found)}
        known = tuple(one for one in before.found if one.partition.topic not in again)
        more = divergence.added(now.found, known, 1 + max({1, *_parts(before)}))
        if not more and not again and now.remarks == before.remarks:
            return operation
        self._tell_of(more, operation)
        facts = replace(now, found=tuple(sorted([*known, *more]))).facts
        return self._operator.note(**facts | {"ids": {**before.ids, **facts["ids"]}})

    def _left_to_the_flow(self, operation: Operation, now: Comparison, again: Collection[str]) -> Operation:
        """Puts on record from where on lies what came when groups had been moved, and what is left of the rest.

        Args:
            operation: that has moved them.
            now: how the two clusters compare.
            again: topics there that were deleted and created again since they were compared.
        """
        before = self._seen(operation)
        same = [one for one in before.found if one.partition.topic not in again]
        known = divergence.without_lost(same, self._lost_since(same))
        reading, without = self._forth.source, comparison.mirrors_there(self._forth, self._back).every
        more, torn = divergence.added(now.found, known, 1 + max({1, *_parts(before)})), self._lost_brought()
        aside = [one for one in more if one.partition in torn]
        others = [one for one in more if one.partition not in torn]
        came = divergence.with_records(reading, others, without, self._forth.flow.admin_timeout_ms)
        self._tell_of(aside, operation)
        since = {one.partition: one.first for one in reversed(came)}
        for place, first in sorted(since.items() - before.since.items()):
            self._tell(
                f"{place}: what {operation.source} has from offset {first} on came when groups had been moved: it is "
                f"not put aside, and {self._forth.flow.name} copies it"
            )
        facts = replace(now, found=tuple(sorted([*known, *aside])), since=since).facts
        return self._operator.note(**facts | {"ids": {**before.ids, **facts["ids"]}})

    def _put_aside(self, operation: Operation) -> Operation:
        """Keeps the parts that are not kept yet.

        One that was begun before is kept again, in another place: the cluster may not have all of it any more.
        """
        for part in sorted(_parts(self._seen(operation)).difference(operation.facts.get("kept", []))):
            facts, place = operation.facts, self._unused(part, operation)
            seen = self._seen(operation)
            found = [one._replace(part=place if one.part == part else one.part) for one in seen.found]
            operation = self._operator.note(
                divergent=[one.row for one in found], begun=[*facts.get("begun", []), place]
            )  # before it is made, so that nobody takes it for another's
            saved = self._keep([one for one in found if one.part == place], place, operation)
            kept = [*facts.get("kept", []), place]
            operation = self._operator.note(kept=kept, saved=facts.get("saved", 0) + saved)
        return operation

    def _unused(self, part: int, operation: Operation) -> int:
        """The number of a place that holds nothing; ``part`` itself if that is one."""
        facts, seen = operation.facts, self._seen(operation)
        names = {one.partition.topic for one in seen.found}
        if part in facts.get("begun", []):
            self._tell("what was kept before the command was broken off stays where it is")
            part = 1 + max({*_parts(seen), *facts["begun"]})
        there = admin.list_topics(self._back.target, timeout_ms=self._back.flow.admin_timeout_ms)
        while any(divergence.kept_as(name, operation.began_ms, part) in there for name in names):
            part += 1
        return part

    def _keep(self, found: Sequence[Divergent], part: int, operation: Operation) -> int:
        """Keeps records of which only the cluster that came back has any; gives how many there are."""
        keep = Keep(operation.facts.get("divergent_as") or Keep.TOPIC)  # by which nothing is lost
        if keep is Keep.DISCARD:
            return 0
        reading, without = self._forth.source, comparison.mirrors_there(self._forth, self._back).every
        if keep is Keep.TOPIC:
            topics = {one.partition.topic for one in found}
            kept = {name: divergence.kept_as(name, operation.began_ms, part) for name in topics}
            saved = divergence.keep_in_topics(reading, self._back.target, self._back.flow, found, kept, without)
            where = ", ".join(sorted(kept.values()))
        else:
            directory, name = Path(self._directory), file_name(operation)
            stem = name if part == 1 else f"{name}-{part}"
            saved = divergence.export(reading, self._forth.flow, found, directory, stem, without)
            where = str(directory)
        self._tell(f"{saved} records that only {operation.source} has are kept in {where}")
        return saved

    def _move(self, operation: Operation) -> None:
        self._check_back()
        began, before = time.monotonic(), self._round_of_groups()
        if not operation.facts.get(COMMITTING):
            self._procedure.deny_again()
            self._procedure.check_members()
        operation = self._settled(operation)
        if not operation.facts.get(COMMITTING):
            self._await_flow_back(began + LANDED_SECONDS, before)
        self._procedure.commit(self._decided_now)
        self._take_back(look.moved_by(self._newest))

    def _take_back(self, groups: Collection[str]) -> None:
        """Puts on record which groups are about to be brought to the cluster that came back, or were.

        Should that go again before its flow has gone on, nobody knows what they have done there.
        """
        known = self._newest.facts.get(TAKEN_BACK, ())
        self._operator.note(**{TAKEN_BACK: with_row(known, self._newest, groups)})

    def _settled(self, operation: Operation) -> Operation:
        """Has all that was written here brought, and all that only the cluster that came back has put aside.

        What came while groups were waited for has to be there too, or who has read it here reads it again there. Where
        that cluster loses the end of a log meanwhile, its offsets are not those of what was brought any more.
        """
        while True:
            self._procedure.do(Step.CATCHING_UP, operation)
            self._procedure.settle_commits()
            operation = self._put_aside(self._compare_again(self._newest))
            if not self._procedure.lost_copies():
                return self._operator.note(**{BROUGHT: self._brought()})

    def _brought(self) -> list[list[Any]]:
        """How far the logs go into which records are brought."""
        assert self._back.store is not None
        return brought.rows_of(self._back.flow, self._back.store.state.progress.values())

    def _decided_now(self) -> tuple[GroupMove, ...]:
        decided = self._decided(self._newest, stable=True)
        gone = [[move.group, *place.partition] for move in decided for place in move.places if place.gone]
        if gone != self._newest.facts.get(GONE, []):  # what groups have left is not on record after the release
            self._operator.note(**{GONE: gone})
        return decided

    @property
    def _newest(self) -> Operation:
        operation = self._operator.operation
        assert operation is not None  # it was begun
        return operation

    def _round_of_groups(self) -> GroupsSeen | None:
        """What the newest round of the flow back's duties has said of groups."""
        assert self._back.store is not None
        self._back.store.follow()
        return self._back.store.state.groups_seen

    def _await_flow_back(self, deadline: float, before: GroupsSeen | None) -> None:
        """Waits until the flow back has nothing under way that it decided before this step was on record.

        One thread puts groups on record and commits offsets (`duties.roster`). So when groups are put on record again,
        every commit that was decided before has ended, and what is decided from now on sees the step.

        Args:
            deadline: when a driver that does not answer has to read the record again before it commits anything.
            before: what the newest round had said of groups when the step was on record.
        """
        flow = self._back.flow
        if not (flow.groups.sync_enabled or flow.groups.checkpoints_enabled):
            return
        while self._round_of_groups() == before:
            if time.monotonic() >= deadline:
                self._tell(f"{flow.name} does not answer: what it has decided about groups is not committed any more")
                return
            time.sleep(LOOK_SECONDS)

    def _check_back(self) -> None:
        """The operation may have stood still while applications went there another way, which stops the flow back."""
        assert self._back.store is not None
        self._back.store.follow()
        held, back = self._back.store.state.held, self._back.flow
        begun = unfinished_of(self._back.store.state)
        if held is not None and begun is not None and held.operation in holders(begun):
            raise SparkmirrorError(told_of_unfinished(begun, back.name))
        if held is not None:
            raise SparkmirrorError(
                f"{back.name} is stopped by {held.reason}: nothing comes to {back.target.alias}, and applications may "
                f"be there already; take this operation back with --abandon, or release {back.name} first"
            )

    def _verify(self, operation: Operation) -> None:
        here, there = self._back.flow.source.alias, operation.source
        denied = self._procedure.deny_again_at_the_end()
        again = tuple(self._again_where_that_has_changed(operation))
        operation, self._looked = self._newest, time.monotonic()
        groups = look.chosen_groups(self._back, complete=True)
        decided = self._decided(operation, settled=True)
        # Should the cluster go again before its flow has looked: what is on record of groups is older than all this.
        self._outward.remember_groups()
        self._procedure.look_after(
            decided,
            (
                *again,
                *denied,
                *told_of_again(earlier_in(operation), there),
                *Comparison.of(operation.facts).troubles(here, there),
                *(
                    f"group {move.group} at {place.partition}: {place.text} (at {place.offset})"
                    for move in decided
                    for place in move.apart
                ),
                *moves.kept(decided, there),
                *moves.lost_their_offsets(decided, here, there),
                *moves.seen_before_a_loss(decided),
                *unchosen(self._forth, self._back),
                *self._outward.left_out_since(),
                *doubt.said_of(doubt.in_doubt(self._back), str(self._back.flow.name)),
                *moves.have_members(groups, here),
            ),
        )

    def _again_where_that_has_changed(self, operation: Operation) -> Iterator[str]:
        """Moves groups again if they stand where they would not be put now; gives what to say of it.

        The cluster may have lost what was copied from it. It may have lost what was brought there, and the flow back
        may have brought it again by now. Of groups
        that have what they had before they were moved, the operation's record tells.
        """
        not_taken, lost = look.not_taken(operation), self._said_of_lost()
        decided = [
            move for move in self._decided(operation, settled=True) if move.missing and move.group not in not_taken
        ]
        changed = [move.group for move in decided if not move.again]
        if lost:
            why = f"{operation.source} has lost {lost}"
        elif changed:
            why = f"{plan.some(changed)} go on at other offsets"
        elif decided:
            self._tell(moves.said_of_again(decided))
            self._move(operation)
            return
        else:
            return
        self._tell(f"{why} since groups were moved: they are moved once more")
        self._move(operation)
        yield f"{why} since groups were moved: they were moved once more"

    def _said_of_lost(self) -> str:
        lost = (*self._lost_at_home().items(), *self._lost_brought().items())
        return next((f"{place} from offset {offset} on" for place, offset in lost), "")

    def _lost_at_home(self) -> dict[str, int]:
        """What the cluster that came back has lost of its own since it was compared, as far as it answers."""
        with suppress(SparkmirrorError):
            return comparison.lost_at_home(self._forth, Comparison.of(self._newest.facts), look.OLDEST_MS)
        return {}

    def _lost_brought(self) -> dict[TopicPartition, int]:
        """From where on the cluster that came back has lost what was brought there, as far as it answers.

        Also what it had lost since groups were moved, and has again by now: other records may lie before that.
        """
        rows, lost = self._newest.facts.get(BROUGHT, ()), dict[TopicPartition, int]()
        with suppress(SparkmirrorError):
            lost |= {one.copy: one.offset for one in self._procedure.lost_copies(look.OLDEST_MS)}
        with suppress(SparkmirrorError):
            lost |= brought.lost_since(self._back.target, rows, look.OLDEST_MS)
        return lost

    def _decided(self, operation: Operation, *, stable: bool = False, settled: bool = False) -> tuple[GroupMove, ...]:
        seen = Comparison.of(operation.facts)
        return decided(self._forth, self._back, seen, operation, stable=stable, settled=settled)

    def _release(self, operation: Operation) -> None:
        """Lets the flow from the cluster that came back go on, and applications write there."""
        seen = self._seen(operation)
        last, lost = self._without_lost(seen.found, operation)
        late = time.monotonic() - self._looked > AT_ONCE_SECONDS
        if lost or late or self._lost_brought() or self._lost_at_home():
            self._verify(operation)
            operation = self._newest
            seen = self._seen(operation)
            last, _ = self._without_lost(seen.found, operation)
        self._let_go_on(last, seen, operation)

    def _undo(self, operation: Operation) -> None:
        """The flow back was never stopped by this operation, so producers may write again, and no more.

        Where it was overtaken, the flow from the cluster that came back goes on as it does at the end of a failback.
        What was found and not put aside is copied.
        """
        if not is_overtaken(operation, state_of(self._back)):
            self._take_back(())
            self._procedure.allow(operation)
            return
        seen, kept = self._seen(operation), operation.facts.get("kept", [])
        last, _ = self._without_lost([one for one in seen.found if one.part in kept], operation)
        self._let_go_on(last, seen, operation)

    def _without_lost(self, found: Sequence[Divergent], operation: Operation) -> tuple[tuple[Divergent, ...], bool]:
        """The newest part of each partition, without what the log has lost since; and whether one has lost anything."""
        last = {one.partition: one for one in found}
        lost = self._lost_since(found)
        for place, end in lost.items():  # what has come there since is not what was put aside
            self._tell(f"{place}: {operation.source} has lost what lay from offset {end} on since it was compared")
            last[place] = last[place]._replace(end=min(end, last[place].end))
        return tuple(last.values()), bool(lost)

    def _let_go_on(self, last: Sequence[Divergent], seen: Comparison, operation: Operation) -> None:
        """Has the flow from the cluster that came back go on, behind what was put aside."""
        again = {one.partition for one in seen.lost}  # to be copied again, with what lies behind
        aside = tuple(one for one in last if one.partition not in again)
        found, now = self._not_behind(aside, seen), now_ms()
        orders = [
            MoveOrder(
                partition=one.partition,
                to=one.end,
                topic_id=seen.ids.get(one.partition.topic, ""),  # of the topic that was looked at, and no other one
                time_ms=now,
                by=operation.by,
                leader_epoch=one.leader_epoch,
            )
            for one in found
        ]
        self._let_in(operation)
        self._procedure.allow(operation)
        left = tuple(self._store.state.left)  # what groups have there now is where they are again
        self._store.write(orders, tombstones=[HOLD_KEY, *left])
        self._tell(f"{self._forth.flow.name} is released")

    def _not_behind(self, found: Sequence[Divergent], seen: Comparison) -> tuple[Divergent, ...]:
        """Those that the flow has not gone on behind yet, nor been told to: a second order would have it copy again."""
        self._store.follow()
        state = self._store.state
        told = {order.partition: order.to for order in state.moves.values()}
        dead = {one.partition: one.position for one in seen.parted}  # positions in what the log has lost
        at = {
            place: progress.position
            for place, progress in state.progress.items()
            if (place.topic not in seen.recreated or progress.topic_id == seen.ids.get(place.topic))
            and dead.get(place) != progress.position
        }
        return tuple(one for one in found if at.get(one.partition, 0) < one.end and told.get(one.partition) != one.end)

    def _let_in(self, operation: Operation) -> None:
        """Takes away what an operation before has denied on the cluster that came back."""
        rows, timeout_ms = operation.facts.get(HOME_FENCE, []), self._forth.flow.admin_timeout_ms
        lifted.let_in(self._operator, self._forth.source, rows, HOME_FENCE, self._own, timeout_ms, self._tell)


def decided(
    forth: Sides,
    back: Sides,
    seen: Comparison,
    operation: Operation | None = None,
    *,
    stable: bool = False,
    settled: bool = False,
) -> tuple[GroupMove, ...]:
    """Where every group goes on.

    Args:
        forth: the flow from the cluster that came back, and its clusters.
        back: the flow to it, and its clusters.
        seen: how the two were compared.
        operation: that moves them, or has moved them.
        stable: whether transactions that commit offsets are waited for.
        settled: as in `HomewardSight`.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    at = now_ms()
    merged = _committed_here(forth, back, operation, stable=stable)
    offsets, copies = merged.offsets, _copies(forth)
    assert forth.store is not None
    assert back.store is not None
    here = {place for own in offsets.values() for place in own}
    begun = back.store.state.progress
    local = {
        name: topics.remote_topic(back.flow, name) for name in topics.read(back.flow, {p.topic for p in here}, begun)
    }
    from_there = {TopicPartition(copies[place.topic], place.partition) for place in here if place.topic in copies}
    from_here = {place for place in here if place.topic in local}
    there = sorted(from_there | {TopicPartition(local[place.topic], place.partition) for place in from_here})
    timeout_ms = back.flow.admin_timeout_ms
    absent, oldest = look.what_is_left(back.target, there, timeout_ms)
    ways = _way(forth, copies, from_there), _way(back, local, from_here)
    mirrored = {place for place, own in ways[0].maps.items() if len(own)}
    mirrored |= {TopicPartition(local[here.topic], here.partition) for here, own in ways[1].maps.items() if len(own)}
    gone = _gone(forth, back, offsets, operation)
    there_now = look.standing_there(back.target, {*offsets, *gone}, timeout_ms)
    unmirrored = [place for place in there if place not in mirrored and place not in absent]
    sight = HomewardSight(
        offsets=offsets,
        seen_ms=at,
        copies=ways[0],
        local=ways[1],
        beyond={one.partition: one.end for one in seen.found},
        aside=tuple(seen.found),
        seen_there=look.on_record(forth.store.state)[0],
        since=seen.since,
        onward=seen.onward,
        recreated=frozenset(seen.recreated),
        parted={one.partition: one.offset for one in seen.parted},
        oldest=oldest,
        absent=absent,
        empty=ends_of_empty(back.target, unmirrored, timeout_ms),
        there=there_now,
        moved=look.moved_by(operation),
        unsure=unsure_in(operation),
        tried=places_in(operation),
        earlier=earlier_in(operation),
        commits=_committed(back.store.state, there_now.offsets),
        lost={one.copy: one.offset for one in seen.lost},
        stood=_committed(forth.store.state, offsets),
        doubtful=doubt.in_doubt(back),
        unsettled=frozenset(seen.unsettled),
        unbrought=frozenset(seen.unbrought),
        narrowed=frozenset(topics.left_out(back.flow, begun)),
        ring=Rings(back).of(here),
        apart=_apart(forth.store.state),
        settled=settled,
        seen_before=merged.lost,
        gone=gone,
    )
    unwritten = _unwritten(forth, homeward.before_the_first(sight))
    return homeward.decide(replace(sight, others=_of_others(forth, sight, seen), unwritten=unwritten))


def _unwritten(forth: Sides, places: Sequence[Divergent]) -> frozenset[tuple[TopicPartition, int]]:
    """Where of these only mirrors have written, where applications are, as far as the logs there have all of it.

    Raises:
        SparkmirrorError: that cluster cannot be read.
    """
    assert forth.store is not None
    known, timeout_ms = forth.store.state.flow, forth.flow.admin_timeout_ms
    if not places or known is None:
        return frozenset()
    asked = sorted({one.partition for one in places})
    starts = admin.list_offsets(forth.target, asked, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    whole = [one for one in places if starts[one.partition] <= one.first]
    makers = brought_from(forth.target, known.target_id, known.source_id)
    written = divergence.with_records(forth.target, whole, makers, timeout_ms)
    return frozenset((one.partition, one.first) for one in whole if one not in written)


def _of_others(forth: Sides, sight: HomewardSight, seen: Comparison) -> dict[TopicPartition, tuple[int, ...]]:
    """From which offsets on others have written on the cluster that came back, in what only the flow back brings there.

    What is put aside is not among it: groups go behind that, and the report has it.

    Raises:
        SparkmirrorError: it cannot be read.
    """
    places = divergence.added(homeward.not_brought(sight), seen.found, part=1)
    if not places:
        return {}
    without = comparison.brought_home(forth)
    found = divergence.with_records(forth.source, places, without, forth.flow.admin_timeout_ms)
    return {
        place: tuple(one.first for one in found if one.partition == place) for place in {p.partition for p in found}
    }


def _committed_here(forth: Sides, back: Sides, operation: Operation | None, *, stable: bool) -> Merged:
    """What groups have committed where applications are, with what was seen before where that cluster has lost it.

    Whether it has is asked now: the last round of the flow back may have been before the loss.

    Raises:
        SparkmirrorError: it cannot be asked, or it is not known of all groups.
    """
    assert forth.store is not None
    assert back.store is not None
    back.store.follow()
    known, before = _known_here(forth, back, operation), back.store.state.groups_seen
    timeout_ms = back.flow.admin_timeout_ms
    found, log = ask_with_lost(
        back.source, lambda: look.offsets_now(back, stable=stable, known=known), before, timeout_ms
    )
    forth.store.follow()
    back.store.follow()
    placed = placed_in(forth.store.state, 0 if before is None else before.moved_ms)
    merged = with_lost(_chosen(back), found, log, placed, parted_in(back.store.state))
    for group in sorted(merged.unknown):
        raise not_known(back.source, group, log)
    return merged


def _chosen(back: Sides) -> tuple[GroupSeen, ...]:
    """What is on record of the groups that the flow back translates."""
    assert back.store is not None
    chosen = look.chooser_of(back)
    return tuple(one for one in back.store.state.groups.values() if chosen(one.group))


def _gone(
    forth: Sides, back: Sides, offsets: Mapping[str, Offsets], operation: Operation | None
) -> dict[str, frozenset[TopicPartition]]:
    """The groups that were taken to where applications are, and the partitions in which they have nothing there now.

    A group that the operation has moved needs it no more; what it had not even then is on the operation's record.
    """
    assert forth.store is not None
    chosen, here = look.chooser_of(back), {there: name for name, there in names(forth, back).items()}
    facts = {} if operation is None else operation.facts
    moved = look.moved_by(operation)
    rows = [*facts.get(GONE, [])] + [
        (one.group, here[one.topic], number)
        for one in forth.store.state.left.values()
        if one.topic in here and one.group not in moved
        for number in one.offsets
    ]
    found: dict[str, set[TopicPartition]] = {}
    for group, topic, number in rows:
        place = TopicPartition(topic, number)
        if chosen(group) and place not in offsets.get(group, {}):
            found.setdefault(group, set()).add(place)
    return {group: frozenset(places) for group, places in found.items()}


def _known_here(forth: Sides, back: Sides, operation: Operation | None) -> set[str]:
    """The groups that are known to be where applications are, as far as that is on record."""
    assert forth.store is not None
    assert back.store is not None
    back.store.follow()
    newest = forth.store.state.ledger.operation
    taken = set[str]().union(*(look.moved_by(one) for one in (operation, newest)))
    left = (one.group for one in forth.store.state.left.values())
    return {*taken, *left, *(one.group for one in back.store.state.groups.values())}


def _committed(state: JournalState, there: Mapping[str, Offsets]) -> Commits:
    """What a flow has committed on its target last, also what it was about to commit, where the target has it."""
    records = state.committed.values()
    return merged(commits_of(records), landed(tried_of(records), there))


def _apart(state: JournalState) -> frozenset[str]:
    """The groups that the operation which holds the flow has found on its target too, and not taken there."""
    newest = state.ledger.operation
    found = () if newest is None else newest.facts.get(APART, ())
    return frozenset(found).difference(one.group for one in state.left.values())


def unchosen(forth: Sides, back: Sides) -> tuple[str, ...]:
    """What is told of groups that operations have taken here, and that the flow back does not translate."""
    assert forth.store is not None
    chosen = look.chooser_of(back)
    names = sorted({one.group for one in forth.store.state.left.values() if not chosen(one.group)})
    if not names:
        return ()
    here, there = back.flow.source.alias, back.flow.target.alias
    text = (
        f"{len(names)} groups that were taken to {here} stay as they stood on {there}, since {back.flow.name}.groups "
        f"leaves them out: {plan.some(names)}"
    )
    return (text,)


def strangers(decided: Sequence[GroupMove], known: Collection[str], commits: Commits) -> list[str]:
    """The groups that stand where they go by a commit of their own, and that the flow from there has never seen. Pure.

    What they have there need not date from before they left: it may be another group of that name. So its offset is
    given too: the failback replaces it.

    Args:
        decided: where groups go on.
        known: the groups that the flow from there has on record, or has taken away.
        commits: what the flow to there has committed there last.
    """
    return [
        f"{move.group} at {place} ({has})"
        for move in decided
        if move.group not in known
        for _, place, has in move.changed
        if has != commits.get(move.group, {}).get(place, NOTHING_COMMITTED).downstream
    ]


def said_of_strangers(forth: Sides, back: Sides, decided: Sequence[GroupMove]) -> tuple[str, ...]:
    """What a plan tells of them."""
    assert forth.store is not None
    assert back.store is not None
    state = forth.store.state
    seen, left = state.groups.values(), state.left.values()
    known = {*(one.group for one in seen), *(one.group for one in left), *look.moved_by(state.ledger.operation)}
    names = strangers(decided, known, commits_of(back.store.state.committed.values()))
    if not names:
        return ()
    here, there = back.flow.source.alias, back.flow.target.alias
    text = (
        f"groups have offsets of their own on {there}, and {forth.flow.name} has never seen them there: they give way "
        f"to where groups of these names stand on {here}: {plan.some(names)}"
    )
    return (f"{text} ({back.flow.name}.groups.exclude leaves them out)",)


def state_of(back: Sides) -> JournalState | None:
    """What is on record of the flow back; None where the cluster that came back does not answer."""
    try:
        look.reach(back.target)
        return record(back)
    except SparkmirrorError:
        return None


def _are_moved(operation: Operation) -> bool:
    """Whether groups may have been moved, so that applications may have gone to the cluster that came back."""
    return bool(operation.facts.get(COMMITTING)) or operation.step in (Step.VERIFYING.name, Step.RELEASING.name)


def _parts(seen: Comparison) -> set[int]:
    """The parts of what only the cluster that came back has."""
    return {one.part for one in seen.found}


def names(forth: Sides, back: Sides) -> dict[str, str]:
    """The topics where applications are now, and what they are called on the cluster that came back."""
    assert back.store is not None
    back.store.follow()
    there = {place.topic for place in back.store.state.progress}
    return {name: topics.remote_topic(back.flow, name) for name in there} | _copies(forth)


def _way(sides: Sides, known: Mapping[str, str], places: set[TopicPartition]) -> Way:
    maps = KnownMaps(sides).of(places)
    assert sides.store is not None
    return Way(names=known, maps=maps, inherited=dict(sides.store.state.inherited))


def _copies(forth: Sides) -> dict[str, str]:
    """The copies that the flow has made, by name, and what they are copies of."""
    assert forth.store is not None
    state = forth.store.state
    known = {place.topic for place in (*state.maps, *state.progress, *state.inherited)}
    return {topics.remote_topic(forth.flow, name): name for name in known}


def open_in(place: TopicPartition, there: str) -> str:
    """What is said of a transaction that is open on the cluster that came back."""
    return f"a transaction is open in {place} on {there}: its producer, or transaction.timeout.ms, has to end it"


class AnotherClusterError(SparkmirrorError):
    """What answers under the address of the cluster that was left is another cluster: waiting does not help."""


def check_same(forth: Sides) -> None:
    """Sees that the cluster that came back is the one that was left.

    Raises:
        AnotherClusterError: it is another one.
        SparkmirrorError: it does not answer.
    """
    assert forth.store is not None
    known = forth.store.state.flow
    found = look.reach(forth.source)
    if known is not None and found != known.source_id:
        raise AnotherClusterError(
            f"cluster {forth.flow.source.alias} is {found} now, and {known.source_id} is on record: it is another "
            "cluster, to which nothing can be brought back"
        )

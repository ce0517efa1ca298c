"""The commands' work: plan an operation, carry it out, resume it, take it back; and release a flow again.

    with prepared(flow, file) as desk:
        plan = desk.plan(Kind.FAILOVER, Options())
        report = desk.carry_out(Kind.FAILOVER, Options(), tell)

Invariants: a plan changes nothing; what is done was planned from what is on record when it is done; an operation that
was interrupted is resumed as it was asked for, whatever is asked for now; a flow is released only by whoever says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import Any

from sparkmirror.config import FlowConfig, MirrorConfig, Side
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import FlowBackRecord, placed_in
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_groups import NOT_PLACED, Merged, ask_with_lost, with_lost
from sparkmirror.errors import BrokerError, ConfigError, LinkError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover import (
    brought_back,
    comparison,
    doubt,
    failback,
    fence,
    lifted,
    look,
    moves,
    narrowed,
    old_groups,
    own_topics,
    plan,
    shut_out,
    unbrought,
    unfollowed,
)
from sparkmirror.failover.changes import changes
from sparkmirror.failover.comparison import Comparison
from sparkmirror.failover.failback import Failback
from sparkmirror.failover.living_there import living_there, told_of_lost
from sparkmirror.failover.operator import Operator, operating
from sparkmirror.failover.own_topics import Own, told_of_strange
from sparkmirror.failover.procedure import Fence, Options, Procedure, carry_out
from sparkmirror.failover.report import Report
from sparkmirror.failover.standing import Standing, has_changed, of_row, order_of, row_of, standing, told_of_change
from sparkmirror.failover.states import (
    APART,
    BACK,
    COMMITTING,
    FENCE,
    GIVEN_UP,
    HELD_BEFORE,
    HOME_FENCE,
    LEFT_BEFORE,
    LIFTED,
    LOST_START,
    MOVED_BEFORE,
    NOT_HOME,
    RETURNED,
    UNFOLLOWED,
    UNTOLD,
    Kind,
    Step,
    at_home,
    can_be_taken_back,
)
from sparkmirror.failover.unbrought import Cause, Unbrought
from sparkmirror.failover.unfinished import (
    ended_before,
    gives_up,
    is_overtaken,
    may_give_up,
    said_of_given_up,
    told_of_unfinished,
    unfinished_of,
    went_back,
    why_forward_only,
)
from sparkmirror.flow import lost_start
from sparkmirror.flow.homecoming import Obstacles
from sparkmirror.flow.opening import check_naming, known_flow, never_started
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.status import observed
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import fetch_offsets
from sparkmirror.kafka.liveness import HEARTBEAT_SECONDS, SILENT_SECONDS
from sparkmirror.kafka.store import Store
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.group_records import GroupLeft
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.left_offsets import Moved, at_release, came_back, moved_at
from sparkmirror.offsets.orders import HOLD_KEY
from sparkmirror.offsets.state import JournalState

NOT_ASKED = look.SourceState(failure="not asked")
"""A report goes by what is on record when the flow was stopped."""

Tell = Callable[[str], None]


def flow_between(config: MirrorConfig, source: str, target: str) -> FlowConfig:
    """The flow of a configuration from one cluster to another.

    Raises:
        ConfigError: there is none.
    """
    for flow in config.flows:
        if (str(flow.source.alias), str(flow.target.alias)) == (source, target):
            return flow
    known = ", ".join(str(flow.name) for flow in config.flows) or "none"
    raise ConfigError(
        file=config.file,
        key=f"{source}->{target}",
        reason=f"there is no enabled flow from {source} to {target}; the flows are: {known}",
        remedy="--from and --to name the clusters of one of them, by their aliases",
    )


def flows_back(config: MirrorConfig, to: str, source: str | None) -> tuple[FlowConfig, FlowConfig]:
    """The flow from a cluster that came back, and the flow to it from where applications are now.

    Raises:
        ConfigError: there is none, or several and nobody said which.
    """
    found = [flow for flow in config.flows if flow.source.alias == to and source in (None, str(flow.target.alias))]
    if len(found) != 1:
        known = ", ".join(str(flow.name) for flow in found) or "none"
        raise ConfigError(
            file=config.file,
            key=f"{to}->",
            reason=f"the enabled flows from {to}{f' to {source}' if source else ''} are: {known}",
            remedy="--to names the cluster that came back, and --from the one where applications are now",
        )
    (forth,) = found
    return forth, flow_between(config, str(forth.target.alias), to)


def back_of(config: MirrorConfig, flow: FlowConfig) -> FlowConfig | None:
    """The flow the other way, if the configuration has it enabled."""
    return next((each for each in config.flows if each.name == flow.name.back), None)


@contextmanager
def prepared(flow: FlowConfig, file: str, back: FlowConfig | None = None) -> Iterator[Desk]:
    """What works on the operations of one flow, with connections that are closed in the end.

    Args:
        flow: the flow.
        file: the configuration file, for messages.
        back: the flow the other way, where the configuration has one.

    Raises:
        ConfigError: the flow was never started.
        SparkmirrorError: the target cannot be asked.
    """
    with connected(flow, role="operator") as sides:
        state = record(sides)
        known = None if state is None else known_flow(flow, sides.target, state)
        if known is None:
            raise never_started(flow, state, file)
        check_naming(flow, known, file)
        yield Desk(sides, file, back)


class Desk:
    """Plans and carries out the operations of one flow; made by `prepared`.

    Args:
        sides: the flow and its clusters.
        file: the configuration file, for messages.
        back: the flow the other way, where the configuration has one.
    """

    def __init__(self, sides: Sides, file: str, back: FlowConfig | None = None) -> None:
        assert sides.store is not None  # it was started
        self._sides = sides
        self._flow_back = back
        self._makes_copies: FlowBackRecord | None = None
        self._store: Store = sides.store
        self._file = file
        self._planned: Standing | None = None
        self._planned_back: Standing | None = None
        self._token = ""
        self._announced = False  # whether a flow back that is held has on record all groups that may have been moved

    @property
    def broken_off(self) -> Operation | None:
        """The operation that this desk has begun or resumed, and that has not ended; None once somebody else has it."""
        found = self.unfinished
        return found if found is not None and found.token == self._token else None

    @property
    def unfinished(self) -> Operation | None:
        """The operation that was begun and has not ended, if there is one."""
        self._store.follow()
        return unfinished_of(self._store.state)

    def plan(self, kind: Kind, options: Options) -> plan.Plan:
        """What an operation would do, and what speaks against it; changes nothing.

        Args:
            kind: of it.
            options: how.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        flow, unfinished = self._sides.flow, self.unfinished
        self._planned = standing(self._store.state)
        with ThreadPoolExecutor(1) as beside:  # a source that is gone is waited for; the target is read meanwhile
            asked = beside.submit(_ask_the_source, self._sides)
            maps = KnownMaps(self._sides)
            decided = moves.decide(look.sight(self._sides, maps, kind=kind))
            source, back = asked.result()
        self._planned_back = None if back is None else standing(back)
        planned = source.answers and kind is Kind.SWITCHOVER
        others, young = self._left_there() if planned else (self._left_by_a_failover(source), ())
        known = {} if source.answers else brought_back.returned(brought_back.rows_of(self._store.state))
        since, names = [] if source.answers else unfollowed.since(self._store.state), frozenset[str]()
        if (moved := _moved_back(self._store.state, back)) or others or since:
            seen = look.sight(self._sides, maps, back=moved, kind=kind, returned=known, since=since, unbrought=others)
            decided, names = moves.decide(seen), seen.unfollowed
        # What was copied up to the ends that were asked for is not missing; a failover depends on no driver.
        state_of_flow = observed(self._store, HEARTBEAT_SECONDS if kind is Kind.FAILOVER else SILENT_SECONDS)
        state = self._store.state
        given_up = unfinished is not None and gives_up(unfinished, kind, answers=source.answers)
        own = () if unfinished is None or given_up or unfinished.kind == kind.value else (unfinished,)
        without = narrowed.since(flow, state, source.listed)
        partitions = look.partitions(flow, state, source)
        return plan.decide(
            kind,
            str(flow.name),
            state_of_flow,
            source,
            partitions,
            decided,
            against=(
                *_elsewhere(str(flow.name), state),
                *(_held_up(self._sides, partitions) if planned else ()),
                *_not_ended(back, state, flow.name.back),
                *(told_of_unfinished(each, flow.name, overtaken=is_overtaken(each, back)) for each in own),
                *_unfenceable(self._sides, source, options),
                *(without if kind is Kind.SWITCHOVER else ()),
            ),
            notes=(
                *(without if kind is Kind.FAILOVER else ()),
                *((lost_start.said(flow.name),) if state.lacks_all_starts else ()),
                *_changed(self._sides, source),
                *moves.told_of_own_lost(decided, str(flow.target.alias), str(flow.name.back)),
                *(_denied(self._sides, source, state, flow.name, self._file) if kind is Kind.SWITCHOVER else ()),
                *_shut_out(flow, options, self._file),
                *_left_behind(flow.name.back, flow, others),
                *(() if source.answers else unbrought.told_last(flow, state)),
                *((_not_begun(flow.name, [str(place) for place in young]),) if young else ()),
                *narrowed.before(flow, state),
                *self._holds(back, answers=source.answers),
                *plan.unseen_losses(flow.name, state.groups_seen),
                *_mirrors_shut_out(flow, source, options, self._file),
                *(() if source.answers else old_groups.said_of(flow, state, now_ms())),
                *old_groups.said_of_returned(known, str(flow.source.alias), str(flow.target.alias)),
                *old_groups.said_of_unfollowed(since, names, flow.name),
                *((said_of_given_up(unfinished, flow.name),) if unfinished is not None and given_up else ()),
            ),
            paused=look.paused(flow, state),
        )

    def carry_out(self, kind: Kind, options: Options, tell: Tell, *, answers: bool = False) -> Report:
        """Does an operation from its begin to its end, or goes on with one of the kind that was interrupted.

        Args:
            kind: of it.
            options: how.
            tell: is given what is being done.
            answers: whether the source answered when it was planned.

        Raises:
            SparkmirrorError: it did not come to its end; run again, it goes on where it was.
        """
        with operating(self._sides.flow, self._store, tell) as operator:
            self._token = operator.token
            self._check_clusters()
            unfinished, given_up = self.unfinished, dict[str, Any]()
            back = self._record_of_back() if answers or self._planned_back is not None else None
            self._check_as_planned(back)
            if unfinished is not None and gives_up(unfinished, kind, answers=answers):
                given_up, unfinished = self._give_up(operator, unfinished, tell), None
            if unfinished is not None and unfinished.kind != kind.value:
                raise SparkmirrorError(self._told_of(unfinished))
            if unfinished is None:
                facts = options.facts | {"answers": answers} | given_up | self._inherited_fence(kind)
                facts |= {LOST_START: True} if self._store.state.lacks_all_starts else {}
                if kind is Kind.FAILOVER and not answers:
                    facts[NOT_HOME] = list(unbrought.told_last(self._sides.flow, self._store.state))
                facts[RETURNED] = brought_back.rows_of(self._store.state)
                facts[UNFOLLOWED] = unfollowed.since(self._store.state)
                facts[BACK] = row_of(self._planned_back if back is None else standing(back))
                moved_back = _moved_back(self._store.state, back if answers else None)
                moved = sorted(look.moved_while_held(self._store.state, back=moved_back))
                gone, left = came_back(self._store.state.left, moved_back), self._store.state.left.items()
                newest = self._store.state.ledger.operation
                before = ended_before(newest)
                before[APART] = newest.facts.get(APART, []) if newest and self._store.state.held else []
                before[LEFT_BEFORE] = sorted({one.group for key, one in left if key not in gone})
                self._store.write([], tombstones=gone)
                after_ms = max(order_of(one) for one in (self._store.state, back) if one is not None)
                operator.begin(kind, self._sides.flow, facts | before | {MOVED_BEFORE: moved}, after_ms)
            else:
                operator.resume()
                tell(f"going on with {unfinished.id}: {Step[unfinished.step].value}")
                if answers and kind is Kind.FAILOVER:
                    operator.note(answers=True)  # it may not have when the operation was begun
                if options.directory:
                    operator.note(directory=options.directory)  # of this machine, which may be another one
            return self.report(
                carry_out(
                    operator,
                    self._sides.flow.name,
                    self._checked(operator, self._steps(operator, tell, options.directory), tell),
                    tell,
                )
            )

    def _checked(
        self, operator: Operator, do: Callable[[Step, Operation], None], tell: Tell
    ) -> Callable[[Step, Operation], None]:
        """The same; before the first group is moved it is seen that no operation of the flow back has come between.

        When all are moved, a flow back that is held has on record which these are.
        """

        def checks_and_does(step: Step, operation: Operation) -> None:
            if step is Step.MOVING and not operation.facts.get(COMMITTING):
                self._check_back_as_begun(operation)
            do(step, operation)
            if step is Step.MOVING or self._announced:
                self._put_on_record_of_back(operator, tell)

        return checks_and_does

    def _announce(self, operator: Operator, groups: Collection[str], tell: Tell) -> None:
        """Has a flow back that is held know which groups are about to be brought to its source: it follows none there.

        Raises:
            SparkmirrorError: it cannot, and a switchover has moved no group yet.
        """
        operation = operator.operation
        assert operation is not None  # it moves groups
        self._announced = True
        try:
            self._tell_back(operator, groups, tell)
        except SparkmirrorError as failure:
            can_wait = operation.kind == Kind.SWITCHOVER.value and not operation.facts.get(COMMITTING)
            if can_wait and self._flow_back is not None:
                raise SparkmirrorError(
                    f"{self._untold(failure)}. No group was moved: run the command again, or take it back with "
                    "--abandon"
                ) from failure
            self._announced = False

    def _put_on_record_of_back(self, operator: Operator, tell: Tell) -> None:
        """The same when groups were moved: which these are.

        A cluster that is gone since, or a flow back that cannot be told, is trouble, and ends no operation. Where it
        was told which were about to be moved, its record has all of them.
        """
        operation, announced = operator.operation, self._announced
        self._announced = False
        try:
            self._tell_back(operator, look.moved_by(operation), tell)
        except SparkmirrorError as failure:
            if not announced and operation is not None:
                untold = self._untold(failure)
                operator.note(**{UNTOLD: [*operation.facts.get(UNTOLD, ()), untold]})
                tell(untold)

    def _tell_back(self, operator: Operator, groups: Collection[str], tell: Tell) -> None:
        """Puts groups on record of a flow back that was held when the operation was begun.

        Raises:
            SparkmirrorError: they cannot be put there.
        """
        operation, own = operator.operation, self._store.state.flow
        before = None if operation is None else of_row(operation.facts.get(BACK, ()))
        if operation is None or own is None or before is None or not before.held_by:
            return
        if self._flow_back is None:
            raise SparkmirrorError(f"{self._file} does not have {self._sides.flow.name.back}, or not enabled")
        back = replace(self._flow_back, admin_timeout_ms=min(look.ASK_MS, self._flow_back.admin_timeout_ms))
        now = brought_back.put_on_record(back, own, operation, groups, tell)
        if now is not None and not operation.facts.get(COMMITTING):
            operator.note(**{BACK: row_of(now)})  # that was this operation's, and nobody has come between

    def _untold(self, failure: SparkmirrorError) -> str:
        name = self._sides.flow.name.back
        release = f"sparkmirror release {quote(self._file)} --flow '{name}'"
        return (
            f"{name} is held, and which groups were brought to {name.source} could not be put on its record: a "
            f"failover to {name.target} would go by an old one until {release} ({failure})"
        )

    def _check_back_as_begun(self, operation: Operation) -> None:
        """Sees that no other operator has gone the other way since the operation was begun.

        Raises:
            SparkmirrorError: one has.
        """
        before = of_row(operation.facts.get(BACK, ()))
        back = None if before is None else self._record_of_back()
        if back is not None and has_changed(before, back):
            said = told_of_change(str(self._sides.flow.name.back), back, f"{operation.id} was begun")
            raise SparkmirrorError(
                f"{said}. No group was moved: take this operation back with --abandon, and plan it again if it is "
                "still wanted"
            )

    def is_planned(self, kind: Kind) -> bool:
        """Whether there is something to consent to: an operation is begun, or goes on in a world that may be another.

        A failover asks only then whether the source is there. Once it has moved a group it can only go on.

        Args:
            kind: of the operation.
        """
        unfinished = self.unfinished
        if unfinished is None or kind is not Kind.FAILOVER:
            return unfinished is None
        if unfinished.kind != kind.value:
            return may_give_up(unfinished, kind)
        return not unfinished.facts.get(COMMITTING)

    def _give_up(self, operator: Operator, unfinished: Operation, tell: Tell) -> dict[str, Any]:
        """Ends an operation whose cluster is gone; gives the facts that the one in its place goes on with.

        A failback lets producers write where applications are. What is denied on the cluster that is gone stays on
        record, and so does the hold: the flow stays stopped.
        """
        operator.resume()
        rows = unfinished.facts.get(FENCE, []) if unfinished.kind == Kind.FAILBACK.value else []
        own = self._own()[self._sides.target.alias]
        lifted.let_in(operator, self._sides.target, rows, FENCE, own, self._sides.flow.admin_timeout_ms, tell)
        operator.go_to(Step.ABANDONED)
        tell(said_of_given_up(unfinished, self._sides.flow.name))
        before = {HELD_BEFORE: unfinished.facts[HELD_BEFORE]} if HELD_BEFORE in unfinished.facts else {}
        return {GIVEN_UP: unfinished.id, **before}

    def _own(self) -> dict[str, Own]:
        """The topics that the flow has to do with, by the cluster's alias."""
        flow, begun = self._sides.flow, self._store.state.progress
        return {
            self._sides.source.alias: partial(own_topics.at_source, flow, begun),
            self._sides.target.alias: partial(own_topics.at_target, flow, begun, self._flow_back),
        }

    def _told_of(self, unfinished: Operation) -> str:
        back = self._record_of_back() if unfinished.kind == Kind.FAILBACK.value else None
        return told_of_unfinished(unfinished, self._sides.flow.name, overtaken=is_overtaken(unfinished, back))

    def _record_of_back(self) -> JournalState | None:
        """What is on record of the flow the other way, where it can be read."""
        return _record_the_other_way(self._sides)

    def _check_taken_back(self, unfinished: Operation, force: bool) -> None:
        """Sees that an operation can be taken back here.

        Raises:
            SparkmirrorError: groups were moved already, or the flows the other way are needed too.
        """
        if unfinished.kind == Kind.FAILBACK.value:
            raise SparkmirrorError(self._told_of(unfinished))
        if not force and not can_be_taken_back(Step[unfinished.step], unfinished.facts):
            raise SparkmirrorError(why_forward_only(unfinished, self._sides.flow.name, None))

    def _check_clusters(self) -> None:
        """Sees that the clusters are those that the operation is about."""

    def _check_as_planned(self, back: JournalState | None) -> None:
        """Sees that no other operator has done anything since the plan was made, neither way.

        Args:
            back: what is on record of the flow the other way, where it can be read.

        Raises:
            SparkmirrorError: one has.
        """
        name = self._sides.flow.name
        for flow, before, now in (
            (name, self._planned, self._store.state),
            (name.back, self._planned_back, back),
        ):
            if now is not None and has_changed(before, now):
                said = told_of_change(str(flow), now, "this plan was made")
                raise SparkmirrorError(f"{said}. Nothing was done: run the command again, and look at the new plan")

    def abandon(self, tell: Tell, *, force: bool = False) -> Report:
        """Takes an operation back that was interrupted before a group was moved.

        Args:
            tell: is given what is being done.
            force: also one that has moved groups: applications have stayed on the source.

        Raises:
            SparkmirrorError: there is none, or groups were moved already.
        """
        with operating(self._sides.flow, self._store, tell) as operator:
            unfinished = self.unfinished
            if unfinished is None:
                raise SparkmirrorError(
                    f"{self._sides.flow.name}: there is no operation that was begun and has not ended"
                )
            self._check_taken_back(unfinished, force)
            operator.resume()
            if unfinished.facts.get(COMMITTING) and unfinished.kind != Kind.FAILBACK.value:
                self._stay(operator, unfinished, tell)  # before the step: resumed, it is done again
            operator.go_to(Step.UNDOING)
            ended = carry_out(operator, self._sides.flow.name, self._steps(operator, tell), tell)
            self._withdraw(operator, tell)
            return self.report(ended)

    def _withdraw(self, operator: Operator, tell: Tell) -> None:
        """Has a flow back that is held know that its groups have stayed; else no place of theirs would be exact."""
        try:
            self._tell_back(operator, (), tell)
        except SparkmirrorError as failure:
            tell(f"{self._sides.flow.name.back} is held, and has on record that groups were taken back: {failure}")

    def _stay(self, operator: Operator, unfinished: Operation, tell: Tell) -> None:
        """Has the groups that an operation has moved stay on the source: they have left nothing behind there.

        What was committed for them on the target is the flow's; a target that does not answer tells nothing of those
        commits that were broken off.
        """
        left, before = self._store.state.left.items(), set(unfinished.facts.get(LEFT_BEFORE, ()))
        self._store.write([], tombstones=[key for key, one in left if one.group not in before])
        try:
            Procedure(self._sides, self._file, operator, tell).settle_commits()
        except (BrokerError, LinkError) as failure:
            tell(f"which offsets {self._sides.target.alias} has taken is not known, and such offsets stay: {failure}")

    def release(self, tell: Tell, *, fence_only: bool = False) -> None:
        """Lets the flow copy again, and takes away what an operation has denied on the source.

        Args:
            tell: is given what is being done.
            fence_only: the flow stays as it is. Where names are kept the flow back can write to the source again. What
                was denied before and allowed again is allowed once more, on both clusters.

        Raises:
            SparkmirrorError: an operation has not ended, nothing is to be released, or the source cannot be asked.
        """
        with operating(self._sides.flow, self._store, tell) as operator:
            unfinished, state, flow = self.unfinished, self._store.state, self._sides.flow
            if unfinished is not None:
                raise SparkmirrorError(self._told_of(unfinished))
            newest = state.ledger.operation
            fenced = newest is not None and bool(newest.facts.get(at_home(newest)))
            late = newest is not None and lifted.lately(newest.facts.get(LIFTED, {}), now_ms())
            if fence_only and not fenced and not late:
                raise SparkmirrorError(f"{flow.name}: nobody is denied to write to its topics on {flow.source.alias}")
            if not fence_only and state.held is None and not fenced:
                raise SparkmirrorError(f"{flow.name} is not held")
            strange = self._let_in(operator, newest, tell, late=fence_only)
            if fence_only:
                _check_own(strange, flow)
                return
            left, gone, lost = self._left_behind(state)
            if newest is not None:  # before the hold goes: nobody has asked the groups yet
                operator.note(**{UNFOLLOWED: unfollowed.since(state)})
            self._store.write(list(left.values()), tombstones=[HOLD_KEY, *gone])
            if names := sorted({one.group for one in left.values()}):
                tell(
                    f"{len(names)} groups live on {flow.target.alias}: what they have committed on "
                    f"{flow.source.alias} until now is left behind, and moves them no further ({plan.some(names)})"
                )
            if lost:
                tell(told_of_lost(lost, str(flow.target.alias)))
            tell(f"{flow.name} is released: it goes on within seconds where it runs, else with sparkmirror run")
            _check_own(strange, flow)

    def _let_in(
        self, operator: Operator, newest: Operation | None, tell: Tell, *, late: bool
    ) -> tuple[tuple[str, str], ...]:
        """Takes away what was denied, and what may have come late; gives what the flow has nothing to do with."""
        if newest is None:
            return ()
        alias = self._sides.source.alias
        left = Procedure(self._sides, self._file, operator, tell).allow(newest, at_home(newest))
        strange = [(alias, name) for name in left]
        if late:
            strange += lifted.let_in_again(operator, self._sides, newest, self._own(), tell)
        return tuple(dict.fromkeys(strange))

    def _left_behind(self, state: JournalState) -> tuple[dict[str, GroupLeft], tuple[str, ...], tuple[str, ...]]:
        """What groups leave behind on the source now, by key, and the keys of what does not count any more.

        A group that does not answer is asked by the flow. The third are the groups of which the target has lost what
        they had there.
        """
        held_ms = 0 if state.held is None else state.held.order
        record, answers = None, self._source_answers()
        if answers:
            record = _about_these(state, self._record_of_back())
        # Not by what the own record has of groups that were brought back: some of them were only about to be.
        back = {} if record is None else moved_at(record.left.values())
        living, found = living_there(self._sides, state, record), Merged(offsets={})
        names = {name for name in living.groups if back.get(name, -1) <= held_ms}
        try:
            if answers:
                found = self._committed_at(names, state, record if back else None)
        except SparkmirrorError:
            back, names = {}, set(living.groups)
        gone = came_back(state.left, back)
        still = {key: one for key, one in state.left.items() if key not in gone}
        now = at_release(still, names, found.known, held_ms, found.lost)
        return now, (*gone, *(key for key in still if key not in now)), tuple(sorted(living.lost & names))

    def _source_answers(self) -> bool:
        try:
            look.check_source(self._sides)
        except SparkmirrorError:
            return False
        return True

    def _committed_at(self, names: Collection[str], state: JournalState, back: JournalState | None) -> Merged:
        """What groups have committed on the source, with what was seen before where that has lost it.

        Args:
            names: the groups.
            state: what is on record of the flow.
            back: of the flow back, where it says something of these clusters.
        """
        source, before = self._sides.source, state.groups_seen
        found, log = ask_with_lost(
            source, lambda: fetch_offsets(source, sorted(names), look.ASK_MS).found, before, look.ASK_MS
        )
        placed = NOT_PLACED if back is None else placed_in(back, 0 if before is None else before.moved_ms)
        known = (one for one in state.groups.values() if one.group in found)
        return with_lost(known, found, log, placed)  # as it was committed: that is what is left behind

    def report(self, operation: Operation) -> Report:
        """What is to be said of an operation now.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        sight = look.sight(self._sides, KnownMaps(self._sides), operation)
        return Report(
            flow=self._sides.flow,
            operation=operation,
            partitions=look.with_absent(
                self._sides,
                look.partitions(self._sides.flow, self._store.state, NOT_ASKED, caught_up=_caught_up(operation)),
            ),
            moves=moves.decide(sight),
            notes=self._notes(operation),
        )

    def _notes(self, operation: Operation) -> tuple[str, ...]:
        """What is told of the flow back when the operation has ended, if it was held when that was begun, or may be."""
        before = of_row(operation.facts.get(BACK, ()))
        if Step[operation.step] is not Step.DONE:
            return ()
        if before is None:
            return self._back_unknown(answers=bool(operation.facts.get("answers")))
        if not before.held_by:
            return ()
        return _back_held(self._sides.flow.name, self._store.state, self._record_of_back(), self._file)

    def _holds(self, back: JournalState | None, *, answers: bool) -> tuple[str, ...]:
        """What is said of earlier operations that hold the flow or the flow back, or may."""
        name, state = self._sides.flow.name, self._store.state
        return (
            *(plan.held_before(name, state.held) if self.unfinished is None else ()),
            *_back_held(name, state, back, self._file),
            *self._back_unknown(answers=answers),
        )

    def _back_unknown(self, *, answers: bool) -> tuple[str, ...]:
        """What is told of a flow back whose record cannot be read, since the source does not answer."""
        if answers or self._flow_back is None:
            return ()
        return plan.back_unknown(self._sides.flow.name.back, self._file)

    def _steps(
        self,
        operator: Operator,
        tell: Tell,
        directory: str = "",  # noqa: ARG002 - what is put aside is a failback's
    ) -> Callable[[Step, Operation], None]:
        procedure = Procedure(
            self._sides,
            self._file,
            operator,
            tell,
            unbegun=self._unbegun,
            wanting=self._wanting,
            announce=lambda groups: self._announce(operator, groups, tell),
        )
        return procedure.do

    def _unbegun(self) -> tuple[TopicPartition, ...]:
        forth = self._copies_made()
        return () if forth is None else unbrought.unbegun(forth, self._sides)

    def _wanting(self, kind: Kind = Kind.SWITCHOVER) -> Unbrought:
        """The copies that others wrote to and of which nothing brings that; a failover does not wait long for it."""
        flow = self._sides.flow
        if not flow.brings_home:
            return {}
        forth, back = self._copies_made(), self._sides
        if kind is Kind.FAILOVER:
            back = replace(back, flow=replace(flow, admin_timeout_ms=min(look.ASK_MS, flow.admin_timeout_ms)))
            forth = FlowBackRecord(back).sides()
        return unbrought.of_unknown_makers(back) if forth is None else unbrought.wanting(forth, back)

    def _left_there(self) -> tuple[Unbrought, tuple[TopicPartition, ...]]:
        """The copies that others wrote to and of which nothing brings that, and those that the flow has not found."""
        wanting, young = self._wanting(), self._unbegun()
        return {place: cause for place, cause in wanting.items() if place not in young}, young

    def _left_by_a_failover(self, source: look.SourceState) -> Unbrought:
        """The copies that others wrote to and of which nothing brings that when nobody waits, where that is known."""
        with suppress(SparkmirrorError):
            return self._wanting(Kind.FAILOVER) if source.answers else {}
        return {}

    def _copies_made(self) -> Sides | None:
        """The flow that makes the copies of which the flow brings home what others wrote, as far as it is on record."""
        if not self._sides.flow.brings_home:
            return None
        self._makes_copies = self._makes_copies or FlowBackRecord(self._sides)
        return self._makes_copies.sides()

    def _inherited_fence(self, kind: Kind) -> dict[str, Any]:
        """What an operation before has denied on the flow's source, and nobody has allowed again; and what was."""
        newest = self._store.state.ledger.operation
        if newest is None:
            return {}
        rows, late = newest.facts.get(at_home(newest)), lifted.lately(newest.facts.get(LIFTED, {}), now_ms())
        facts = {HOME_FENCE if kind is Kind.FAILBACK else FENCE: rows, LIFTED: late}
        return {name: fact for name, fact in facts.items() if fact}


class BackDesk(Desk):
    """Plans and carries out going back; made by `prepared_back`.

    Args:
        forth: the flow from the cluster that came back.
        back: the flow to it.
        file: the configuration file, for messages.
    """

    def __init__(self, forth: Sides, back: Sides, file: str) -> None:
        super().__init__(forth, file, back.flow)
        self._back = back

    def plan(self, kind: Kind, options: Options) -> plan.Plan:
        """What going back would do, and what speaks against it; changes nothing.

        Args:
            kind: of it.
            options: how.

        Raises:
            SparkmirrorError: a cluster cannot be asked, or the one that came back is another one.
        """
        failback.check_same(self._sides)
        self._store.follow()
        self._planned = standing(self._store.state)
        assert self._back.store is not None
        self._back.store.follow()
        self._check_not_there()
        source = look.source(self._back)
        ends = comparison.ends(self._sides)
        stable = comparison.stable(self._sides, ends)
        seen = comparison.compare(self._sides, self._back, stable)
        only = sum(one.end - one.first for one in seen.found)
        places = len({one.partition for one in seen.found})
        still = sorted(place for place, end in ends.items() if stable[place] < end)
        state_of_flow = observed(self._back.store)  # asking may have taken long
        self._store.follow()
        state = self._back.store.state
        forth, back = self._sides.flow, self._back.flow
        stopped = self._store.state.held is not None  # a process that has ended moved no application
        left = (place for place in unbrought.left_here(self._sides, self._back) if place not in seen.unbrought)
        others = dict.fromkeys(left, Cause.NOT_BROUGHT)
        doubtful = doubt.in_doubt(self._back)
        partitions = look.with_doubt(look.partitions(back, state, source), doubtful)
        decided = failback.decided(self._sides, self._back, seen)
        return plan.decide(
            kind,
            str(back.name),
            state_of_flow,
            source,
            self._let_in_at_the_begin(partitions),
            decided,
            paused=look.paused(back, state),
            against=(
                *(() if stopped else (f"{forth.name} was not stopped: a failover or a switchover does that",)),
                *_elsewhere(str(forth.name), self._store.state),
                *_stopped(back.name, state, self._store.state, self._file),
                *(_held_up(self._back, partitions) if source.answers else ()),
                *_unfenceable(self._back, source, options),
                *narrowed.since(back, state, source.listed),
            ),
            notes=(
                *narrowed.since(forth, self._store.state),
                *seen.troubles(back.source.alias, forth.source.alias),
                *_changed(self._back, source),
                *_lost_there(self._back),
                *doubt.said_of(doubtful, str(back.name)),
                *failback.unchosen(self._sides, self._back),
                *failback.said_of_strangers(self._sides, self._back, decided),
                *narrowed.before(forth, self._store.state),
                *narrowed.before(back, state),
                *((f"{only} offsets of {places} partitions are on {forth.source.alias} only",) if seen.found else ()),
                *((failback.open_in(still[0], forth.source.alias),) if still else ()),
                *_left_behind(forth.name, back, others),
                *_denied(self._back, source, self._store.state, forth.name, self._file),
                *_shut_out_still(forth, self._store.state, self._file),
            ),
        )

    def _let_in_at_the_begin(self, known: tuple[look.PartitionState, ...]) -> tuple[look.PartitionState, ...]:
        """The flow back's partitions, as they stand when the failback has taken away what is denied to it."""
        newest, source = self._store.state.ledger.operation, self._sides.source.alias
        rows = [] if newest is None else newest.facts.get(at_home(newest), [])
        if not rows or not comparison.shares_topics(self._sides, self._back):
            return known
        denied = self._own()[source]([rule.name for rule in fence.rules_of(rows)])
        return look.waiting_for_no_rights(known, source, denied)

    def report(self, operation: Operation) -> Report:
        """What is to be said of an operation now.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        if (
            Step[operation.step] is Step.ABANDONED
        ):  # nothing was moved, and the cluster that came back may be gone again
            return Report(flow=self._back.flow, operation=operation, partitions=(), moves=())
        assert self._back.store is not None
        self._back.store.follow()
        known = look.partitions(self._back.flow, self._back.store.state, NOT_ASKED, caught_up=_caught_up(operation))
        decided = failback.decided(self._sides, self._back, Comparison.of(operation.facts), operation, settled=True)
        if Step[operation.step] is Step.DONE:
            decided = moves.as_they_stand(decided, look.not_moved(operation))
        return Report(
            flow=self._back.flow,
            operation=operation,
            partitions=look.with_doubt(known, doubt.in_doubt(self._back)),
            moves=decided,
        )

    def _check_clusters(self) -> None:
        failback.check_same(self._sides)
        unfinished = self.unfinished
        if unfinished is None:
            assert self._back.store is not None
            self._back.store.follow()  # hours may have passed since the plan was made
            self._check_not_there()
        elif is_overtaken(unfinished, self._record_of_back()):
            raise SparkmirrorError(told_of_unfinished(unfinished, self._sides.flow.name, overtaken=True))

    def _check_not_there(self) -> None:
        """Sees that applications are not on the cluster that came back already: nothing there is to be put aside then.

        Raises:
            SparkmirrorError: they are.
        """
        assert self._back.store is not None
        held = self._store.state.held
        by = "" if held is None else went_back(held.order, self._back.store.state)
        if by:
            forth, back = self._sides.flow, self._back.flow
            raise SparkmirrorError(
                f"applications have gone back to {forth.source.alias} by {by} since {forth.name} was stopped: nothing "
                f"is to be brought back. sparkmirror release {quote(self._file)} --flow '{forth.name}' lets it copy "
                f"again, and release --flow '{back.name}' the flow back"
            )

    def _record_of_back(self) -> JournalState | None:
        return failback.state_of(self._back)

    def _check_taken_back(self, unfinished: Operation, force: bool) -> None:  # noqa: ARG002 - nothing is forced here
        if unfinished.kind != Kind.FAILBACK.value:
            raise SparkmirrorError(self._told_of(unfinished))
        if can_be_taken_back(Step[unfinished.step], unfinished.facts):
            return
        back = self._record_of_back()
        if not is_overtaken(unfinished, back):
            raise SparkmirrorError(why_forward_only(unfinished, self._sides.flow.name, back))

    def _check_back_as_begun(self, operation: Operation) -> None:
        """The step itself looks whether the flow back is stopped, and by whom."""

    def _tell_back(self, operator: Operator, groups: Collection[str], tell: Tell) -> None:
        """A failback is on the record of the flow that is held, and releases it."""

    def _steps(self, operator: Operator, tell: Tell, directory: str = "") -> Callable[[Step, Operation], None]:
        return Failback(self._sides, self._back, self._file, operator, tell, directory).do


@contextmanager
def prepared_back(forth: FlowConfig, back: FlowConfig, file: str, *, home: bool = True) -> Iterator[BackDesk]:
    """What works on going back, with connections that are closed in the end.

    Args:
        forth: the flow from the cluster that came back.
        back: the flow to it.
        file: the configuration file, for messages.
        home: whether that cluster is needed; an operation can be taken back without.

    Raises:
        ConfigError: one of the flows was never started.
        SparkmirrorError: a cluster cannot be asked.
    """
    needs = (Side.TARGET,) if home else ()
    with connected(forth, role="operator") as one, connected(back, role="operator", needs=needs) as other:
        for sides in (one, other) if home else (one,):
            state = record(sides)
            if state is None or state.flow is None:
                raise never_started(sides.flow, state, file)
            check_naming(sides.flow, state.flow, file)
        yield BackDesk(one, other, file)


def _check_own(strange: Collection[tuple[str, str]], flow: FlowConfig) -> None:
    """Fails at the end of a release, where the record has named topics that the flow has nothing to do with.

    Raises:
        SparkmirrorError: it has.
    """
    by_alias = {alias: {name for where, name in strange if where == alias} for alias, _ in strange}
    told = [text for alias, names in by_alias.items() for text in told_of_strange(names, str(flow.name), alias)]
    if told:
        raise SparkmirrorError("; ".join(told))


def _unfenceable(sides: Sides, source: look.SourceState, options: Options) -> tuple[str, ...]:
    """Why producers cannot be kept out as it was asked for; a source that does not answer cannot tell."""
    if options.fence is not Fence.ACL or not source.answers:
        return ()
    try:
        fence.missing(sides.source, {place.topic for place in source.ends}, sides.flow.admin_timeout_ms)
    except SparkmirrorError as failure:
        return (str(failure),)
    return ()


def _denied(sides: Sides, source: look.SourceState, state: JournalState, name: FlowName, file: str) -> tuple[str, ...]:
    """Which topics are denied to producers on a flow's source, though no operation on record denies them now.

    The record is that of the flow of the name.

    Who may not see ACLs is told of it only where an operation has made some: nothing else needs that right.
    """
    operation, alias = state.ledger.operation, str(sides.flow.source.alias)
    if not source.answers:
        return ()
    try:
        denied = fence.denied(sides.source, {place.topic for place in source.ends}, look.ASK_MS)
    except SparkmirrorError as failure:
        known = operation is not None and lifted.topics_of(operation, alias, now_ms())
        return (f"whether producers are still denied to write to {alias} is not known: {failure}",) if known else ()
    return lifted.said_of_denied(denied, operation, name, alias, file, now_ms())


def _changed(sides: Sides, source: look.SourceState) -> tuple[str, ...]:
    """What the source has instead of what was copied, where it answers and the flow has not seen it."""
    if not source.answers:
        return ()
    try:
        seen = changes(sides, source.ends, look.ASK_MS)
    except SparkmirrorError as failure:
        return (f"whether {sides.flow.source.alias} still has what was copied is not known: {failure}",)
    return seen.troubles(str(sides.flow.source.alias), str(sides.flow.target.alias))


def _lost_there(back: Sides) -> tuple[str, ...]:
    """What the cluster that came back has lost of what was brought to it, and the flow there has not found."""
    flow = back.flow
    try:
        lost = comparison.lost_here(back, look.ASK_MS)
    except SparkmirrorError as failure:
        return (f"whether {flow.target.alias} still has what was brought there is not known: {failure}",)
    then = f"{flow.name} brings that again before groups are moved"
    return tuple(f"{flow.target.alias} has lost {one.copy} from offset {one.offset} on: {then}" for one in lost)


def _shut_out(flow: FlowConfig, options: Options, file: str) -> tuple[str, ...]:
    if options.fence is not Fence.ACL or not flow.tells_writers:
        return ()
    denied = f"while everybody is denied to write to {flow.source.alias}, {flow.name.back} cannot either"
    release = f"sparkmirror release {quote(file)} --flow '{flow.name}' --fence-only"
    return (f"{denied}: once no producer is left, {release} ends that",)


def _shut_out_still(forth: FlowConfig, state: JournalState, file: str) -> tuple[str, ...]:
    """What an operation has denied on the cluster that came back keeps the flow back out of topics that it shares."""
    newest = state.ledger.operation
    if newest is None or not newest.facts.get(at_home(newest)) or not forth.tells_writers:
        return ()
    release = f"sparkmirror release {quote(file)} --flow '{forth.name}' --fence-only"
    kept = f"{newest.id} keeps everybody from writing to {forth.source.alias}, {forth.name.back} too"
    return (f"{kept}: a failback ends that when it begins, {release} at once",)


def _mirrors_shut_out(flow: FlowConfig, source: look.SourceState, options: Options, file: str) -> tuple[str, ...]:
    if options.fence is not Fence.ACL:
        return ()
    return shut_out.said_of_copies(flow, {place.topic for place in source.ends}, file)


def _caught_up(operation: Operation) -> bool:
    """Whether the operation itself has asked the source for its ends, and seen that the target has all."""
    return Step.CATCHING_UP.name in operation.facts.get("times", {})


def _ask_the_source(sides: Sides) -> tuple[look.SourceState, JournalState | None]:
    """What the source says, and the record of the flow back, which lies there."""
    source = look.source(sides)
    return source, _record_the_other_way(sides) if source.answers else None


def _record_the_other_way(sides: Sides) -> JournalState | None:
    """None too where the source does not let it be read."""
    name = internal_topic(sides.flow.name.back)
    try:
        if not admin.list_topics(sides.source, [name], look.ASK_MS):
            return None
        store = Store(sides.source, name, look.ASK_MS)
        store.follow()
        return store.state
    except SparkmirrorError:
        return None


def _moved_back(own: JournalState, back: JournalState | None) -> Moved:
    """When operations of the flow back have moved groups to the source; a record about other clusters says nothing.

    Where that record is not there, what these operations have put on the own record says so, as long as it is held.
    """
    same = _about_these(own, back)
    known = brought_back.order_of(brought_back.rows_of(own))
    return brought_back.latest(known, {} if same is None else moved_at(same.left.values()))


def _about_these(own: JournalState, back: JournalState | None) -> JournalState | None:
    """What is on record of the flow back, if that is about these clusters."""
    if own.flow is None or back is None or back.flow is None:
        return None
    same = (back.flow.source_id, back.flow.target_id) == (own.flow.target_id, own.flow.source_id)
    return back if same else None


def _back_held(name: FlowName, own: JournalState, back: JournalState | None, file: str) -> tuple[str, ...]:
    same = _about_these(own, back)
    return () if same is None else plan.back_held(name.back, same.held, file)


def _stopped(name: FlowName, back: JournalState, forth: JournalState, file: str) -> tuple[str, ...]:
    """Why the flow back does not run, and how to have it go on."""
    not_ended = _not_ended(back, forth, name)
    if back.held is None:
        return not_ended
    release = "" if not_ended else f": sparkmirror release {quote(file)} --flow '{name}' lets it copy again"
    return (*not_ended, f"{name} is stopped by {back.held.reason}{release}")


def _not_ended(other: JournalState | None, own: JournalState, name: FlowName) -> tuple[str, ...]:
    """What is told of an operation of the flow the other way, as its record has it, that has not ended."""
    begun = None if other is None else unfinished_of(other)
    return () if begun is None else (told_of_unfinished(begun, name, overtaken=is_overtaken(begun, own)),)


def _elsewhere(flow: str, state: JournalState) -> tuple[str, ...]:
    """Of a flow that MirrorMaker 2 runs now, what is on record is old."""
    if state.elsewhere is None:
        return ()
    return (
        f"{flow} was handed over to MirrorMaker 2, whose copies are not on record: run it with --take-over mm2 first",
    )


def _not_begun(flow: FlowName, places: Sequence[str]) -> str:
    said = f"{flow} has not begun with what others wrote to copies: {plan.some(places)}"
    return f"{said} (it is told to look before that is waited for)"


def _left_behind(forth: FlowName, back: FlowConfig, others: Unbrought) -> Iterator[str]:
    """What a plan tells of copies, a line for each cause."""
    here, there, why = back.source.alias, back.target.alias, f"the log of {back.name} says why"
    remedy = f"{back.name}.homeward.enabled = true has it brought home"
    said = {
        Cause.NOT_BROUGHT: f"others wrote to copies of {forth}",
        Cause.NO_ORIGINAL: f"others wrote to partitions of copies that the originals on {there} have not",
        Cause.BEFORE_COPIES: f"others wrote to copies before the first record that {forth} has copied there",
        Cause.UNKNOWN_MAKER: f"nobody has on record on {here} who makes copies, and others may have written to them",
    }
    more = {
        Cause.NOT_BROUGHT: f"{why}; sparkmirror explain tells of one topic" if back.brings_home else remedy,
        Cause.NO_ORIGINAL: f"{why}; give the originals as many",
        Cause.BEFORE_COPIES: f"write these records on {there} once more, if they are wanted there",
        Cause.UNKNOWN_MAKER: f"{why}; MirrorMaker 2 has no such record",
    }
    for cause, what in said.items():
        places = [str(place) for place, own in others.items() if own is cause]
        if places:
            yield f"{what}, and no flow brings that back: {plan.some(places)} ({more[cause]})"


def _held_up(sides: Sides, partitions: Sequence[look.PartitionState]) -> tuple[str, ...]:
    """Why what a flow has still to bring home does not go there, so that it would be waited for in vain."""
    lacking = [one.partition for one in partitions if one.missing]
    try:
        found = Obstacles(sides).look(lacking, lasting=True)
    except SparkmirrorError:
        return ()
    places = {why: [str(place) for place, own in found.items() if own == why] for why in found.values()}
    return tuple(f"nothing that others wrote is brought home of {plan.some(own)}: {why}" for why, own in places.items())

"""Carries an operation out, step by step: each one is done, then the next is put on record.

Invariants: a step that is done again changes nothing that it had done; before a group is moved the flow is stopped and
settled, so that what is translated with does not change any more; before each change it is certain that nobody else has
the operation. A step that fails leaves the operation where it is, with the reason, to be resumed or taken back. Hours
may pass before: the step that moves groups asks the source again, since applications may have gone on there, and the
target, since it may have lost the end of a log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from shlex import quote
from typing import Any

from sparkmirror.duties import chosen_groups, lost_groups, topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.group_look import PATIENCE_SECONDS
from sparkmirror.duties.group_records import Seen, committed_before, ids_where_committed, lost, news, topics_of_gone
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import lost_copies, recreated_copies
from sparkmirror.duties.lost_groups import NOT_PLACED, OffsetsLog
from sparkmirror.duties.upstream_offsets import UpstreamOffsets, upstream_on_record
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover import (
    comparison,
    fence,
    lifted,
    look,
    moves,
    narrowed,
    old_groups,
    own_topics,
    plan,
    unbrought,
)
from sparkmirror.failover.broken_off import cause, told_of
from sparkmirror.failover.brought_back import returned_in
from sparkmirror.failover.changes import Changes, changes
from sparkmirror.failover.doubt import note_lacks
from sparkmirror.failover.earlier import added, earlier_in, told_of_again, with_before
from sparkmirror.failover.last_checkpoints import write_last
from sparkmirror.failover.late import records_behind
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.others import Others
from sparkmirror.failover.patience import is_waited_for, patience
from sparkmirror.failover.states import (
    AGAIN,
    APART,
    CAME_BACK,
    COMMITTING,
    EARLIER,
    ENDED,
    FENCE,
    FORGOTTEN,
    HELD_BEFORE,
    LOST_START,
    MOVED,
    NOT_HOME,
    NOT_TAKEN,
    TORN,
    TRIED,
    UNASKED,
    UNBROUGHT,
    UNSETTLED,
    UNSURE,
    UNTOLD,
    Kind,
    Step,
    following,
    holders,
)
from sparkmirror.failover.tried import Tried, settled, tried_in, unsure_in, unsure_rows, with_tried
from sparkmirror.failover.unfollowed import not_asked_since, since_in
from sparkmirror.flow import lost_start
from sparkmirror.flow.completion import Left, outstanding
from sparkmirror.flow.homecoming import Obstacles
from sparkmirror.flow.opening import check_still_held
from sparkmirror.flow.operator import discover
from sparkmirror.flow.parting import LostCopies, recreated_topics
from sparkmirror.flow.settling import settle
from sparkmirror.kafka import admin
from sparkmirror.kafka.codes import Advice, advice
from sparkmirror.kafka.groups import (
    HAS_MEMBERS,
    OFFSETS_TOPIC,
    TAKEN_BY_NONE,
    ChangedError,
    commit_offsets,
    fetch_offsets,
    requests_of,
)
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.store import Store
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.offsets import group_commits
from sparkmirror.offsets.foreign import OVERWRITTEN
from sparkmirror.offsets.group_records import GroupsSeen, commits_of
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.left_offsets import Moved, moved_here, with_left
from sparkmirror.offsets.orders import HOLD_KEY, HoldOrder
from sparkmirror.offsets.state import JournalState

LOOK_SECONDS = 0.5
ASK_SECONDS = 1.0
SETTLE_SECONDS = 60.0

COMMITS_AT_ONCE = 2_000
"""Offsets whose commit is on record before it is tried; whoever goes on asks which of them the target has taken."""

LOOKS_AGAIN = 3
"""For groups that others commit for on the target just then. A group whose offsets change each time is in use there."""


class Fence(Enum):
    """How producers are kept from the source."""

    IDLE = "idle"
    """They are stopped by their owners; it is waited until nothing is written any more."""

    ACL = "acl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How an operation was asked for; kept on record, so that whoever resumes it does the same.

    Attributes:
        fence: how producers are kept from the source.
        idle_s: nothing must be written for so long.
        timeout_s: until a step that waits for others gives up.
        divergent: what becomes of records that only a cluster that came back has, a value of ``states.Keep``.
        directory: of the report, and of exported records; of this machine, so it is only put on record for people.
    """

    fence: Fence = Fence.IDLE
    idle_s: float = 5.0
    timeout_s: float = 600.0
    divergent: str = ""
    directory: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """For the record."""
        kept = {"fence": self.fence.value, "idle_s": self.idle_s, "timeout_s": self.timeout_s}
        return {"options": kept, "divergent_as": self.divergent, "directory": self.directory}

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Options:
        """From the record.

        Raises:
            SparkmirrorError: somebody else has written it.
        """
        kept = facts.get("options")
        if kept is None:
            raise SparkmirrorError(f"the record of this operation does not say how it was asked for: {OVERWRITTEN}")
        return Options(
            fence=Fence(kept["fence"]),
            idle_s=kept["idle_s"],
            timeout_s=kept["timeout_s"],
            divergent=facts.get("divergent_as", ""),
        )


class Procedure:
    """One operation of one flow.

    Args:
        sides: the flow and its clusters.
        file: the configuration file, for messages.
        operator: who has the operation.
        tell: is given what is being done.
        homeward: whether groups go back to where they came from; the flow forth is stopped then.
        unbegun: gives the copies of which the flow is to bring what others wrote, and has not begun to.
        wanting: gives for an operation those of which nothing brings that, though it is to be brought, and why.
        announce: is given the groups that may be moved, before one is.
    """

    def __init__(
        self,
        sides: Sides,
        file: str,
        operator: Operator,
        tell: Callable[[str], None],
        *,
        homeward: bool = False,
        unbegun: Callable[[], Sequence[TopicPartition]] = tuple,
        wanting: Callable[[Kind], unbrought.Unbrought] = lambda _kind: {},
        announce: Callable[[Collection[str]], None] = lambda _groups: None,
    ) -> None:
        assert sides.store is not None  # a flow that was never started has no operation
        self._sides = sides
        self._store: Store = sides.store
        self._file = file
        self._operator = operator
        self._tell = tell
        self._homeward, self._unbegun, self._wanting, self._announce = homeward, unbegun, wanting, announce
        self._others, self._obstacles = Others(sides), Obstacles(sides)
        self._ordered: set[str] = set()
        self._maps = KnownMaps(sides)
        self._timeout_ms = sides.flow.admin_timeout_ms
        self._steps: dict[Step, Callable[[Operation], None]] = {
            Step.FENCING: self._fence,
            Step.CATCHING_UP: self._catch_up,
            Step.IDLING: self._idle,
            Step.STOPPING: self._stop,
            Step.MOVING: self._move,
            Step.VERIFYING: self._verify,
            Step.UNDOING: self._undo,
        }

    @property
    def _newest(self) -> Operation:
        operation = self._operator.operation
        assert operation is not None  # it was begun
        return operation

    @property
    def _aliases(self) -> tuple[str, str]:
        return str(self._sides.flow.source.alias), str(self._sides.flow.target.alias)

    def do(self, step: Step, operation: Operation) -> None:
        """Does one step, which may have been done before.

        Raises:
            SparkmirrorError: it could not be done.
        """
        self._steps[step](operation)

    # ------------------------------------------------------------------------------------------- the source is emptied

    def _fence(self, operation: Operation) -> None:
        """Keeps producers from the source, and waits until nothing is written any more."""
        options = Options.of(operation.facts)
        if options.fence is Fence.ACL:
            self._deny(operation)
            denied = len(self._newest.facts.get(FENCE, []))
            self._tell(f"writing to {denied} topics is denied to everybody on {self._sides.source.alias}")
        deadline = time.monotonic() + options.timeout_s
        ends = self._written()
        still_since = time.monotonic()
        while time.monotonic() - still_since < options.idle_s:
            time.sleep(min(ASK_SECONDS, options.idle_s))
            now = self._written()
            if now != ends:
                busy = sorted(place for place in now if now[place] != ends.get(place))
                self._tell(f"{len(busy)} partitions are still written to, {busy[0]} among them")
                ends, still_since = now, time.monotonic()
                if time.monotonic() > deadline:
                    raise SparkmirrorError(
                        f"{busy[0]} and {len(busy) - 1} other partitions of cluster {self._sides.source.alias} are "
                        f"still written to after {options.timeout_s:g} s: stop their producers and run the command "
                        "again, or take the operation back with --abandon"
                    )

    def _deny(self, operation: Operation) -> tuple[str, ...]:
        """Makes the rules that are not there; gives their topics."""
        topics, rows = {place.topic for place in self._ends(committed=False)}, operation.facts.get(FENCE, [])
        rules = fence.missing(self._sides.source, topics, self._timeout_ms)
        more = [row for row in fence.rows_of(rules) if row not in rows]
        if more:
            self._operator.note(**{FENCE: [*rows, *more]})  # before they are made: whoever takes this back knows them
        fence.put_up(self._sides.source, rules, self._timeout_ms, self._operator.prove)
        return tuple(rule.name for rule in rules)

    def deny_again(self) -> tuple[str, ...]:
        """Sees that all is still denied that the operation denies to producers; makes it so, and gives what to say.

        A request of an operation before may come late, from a broker that stood still, and take a rule away. What was
        written meanwhile is looked for after this.

        Raises:
            SparkmirrorError: the source cannot be asked or refuses, or somebody else has the operation.
        """
        operation = self._newest
        if Options.of(operation.facts).fence is not Fence.ACL:
            return ()
        names = self._deny(operation)
        if not names:
            return ()
        which, why = plan.some(names), "by a request of an operation before that came late, or by somebody"
        text = (
            f"producers were not kept from topics {which} on {self._sides.source.alias}: they are new, or a rule has "
            f"been taken away since, {why}. It is denied now"
        )
        self._tell(text)
        return (text,)

    def deny_again_at_the_end(self) -> tuple[str, ...]:
        """The same when groups have been moved: a source that is gone since keeps no operation from its end."""
        try:
            look.check_source(self._sides)
            return self.deny_again()
        except SparkmirrorError as failure:
            return (f"whether producers are still kept from {self._sides.source.alias} is not known: {failure}",)

    def _catch_up(self, operation: Operation) -> None:
        """Waits until everything that the source has is on the target, and proves it."""
        options = Options.of(operation.facts)
        deadline = time.monotonic() + options.timeout_s
        ends, high = self._both_ends()
        said = ""
        while True:
            self._store.follow()
            left = self._left(ends)
            open_ones = sorted(place for place, end in ends.items() if high[place] > end)
            line = self._line(left.records, left.partitions, left.trouble, open_ones)
            if left.partitions:
                line += self._undiscovered(ends)
            line = line or self._said_of_unbegun() or self._said_of_lost() or self._said_of_changes()
            if not line:
                before, (ends, high) = (ends, high), self._both_ends()
                if before == (ends, high):
                    break
                line = "the source has grown meanwhile"  # a producer that was late, or a fence of the flow back
            if line != said:
                self._tell(line)
                said = line
            if time.monotonic() > deadline:
                raise SparkmirrorError(f"after {options.timeout_s:g} s {line} (--abandon takes the operation back)")
            time.sleep(LOOK_SECONDS)
            if open_ones:
                ends, high = self._both_ends()
        self._tell(f"all {len(ends)} partitions are on the target up to their ends: lag 0")

    def _line(self, records: int, partitions: int, trouble: str, open_ones: list[TopicPartition]) -> str:
        if partitions or trouble:
            return f"{records} records of {partitions} partitions are missing" + (f": {trouble}" if trouble else "")
        if open_ones:
            return f"a transaction is open in {open_ones[0]}: its producer, or transaction.timeout.ms, has to end it"
        return ""

    def lost_copies(self, timeout_ms: int | None = None) -> tuple[LostCopies, ...]:
        """What the target has lost of what the flow has brought there and still copies, and has not found yet.

        Args:
            timeout_ms: of each question to the target; as the flow is configured without.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        lost = comparison.lost_here(self._sides, timeout_ms)
        copied = self._ends(committed=False).keys() if lost else ()
        return tuple(one for one in lost if one.partition in copied)

    def _said_of_lost(self) -> str:
        """Of a cluster that groups go back to: the flow has to find it first, and then brings it again."""
        if not self._homeward or not (lost := self.lost_copies()):
            return ""
        one, flow = lost[0], self._sides.flow
        more = f" and the end of {len(lost) - 1} more" if len(lost) > 1 else ""
        which = f"{one.copy} from offset {one.offset} on{more}"
        return f"{flow.target.alias} has lost {which}: {flow.name} finds that within a minute, and brings it again"

    def _undiscovered(self, ends: Mapping[TopicPartition, int]) -> str:
        """Which topics the flow has not found yet; it is ordered to look for them once."""
        progress, flow = self._store.state.progress, self._sides.flow
        unknown = {place.topic for place, end in ends.items() if end and place not in progress}
        ids = ids_of_topics(self._sides.source, {place.topic for place in progress.keys() & ends.keys()})
        names = sorted({*unknown, *recreated_topics(progress, ids)})
        if not names:
            return ""
        which = self._discovered(names)
        return f"; {flow.name} has not found {which} yet and is told to look now: its log says what it finds"

    def _said_of_unbegun(self) -> str:
        """Of copies that others wrote to, and that the flow has not found for that yet; it is ordered to look."""
        names = sorted({place.topic for place in self._unbegun()})
        if not names:
            return ""
        flow = self._sides.flow
        which = self._discovered(names)
        return (
            f"{flow.name} has not begun with what others wrote to {which}, and is told to look now: its log says more"
        )

    def _said_of_changes(self) -> str:
        """Of logs that are not those that were copied: the flow has to find that first, and then copies what is there.

        How far the source's logs go is no proof of what the target has while they are others.
        """
        changed, flow = changes(self._sides, self._ends(committed=True)), self._sides.flow
        source = flow.source.alias
        if changed.recreated:
            which = self._discovered(sorted(changed.recreated))
            return (
                f"{which} was deleted and created again on {source}, and {flow.name} has not gone on there yet: it is "
                "told to look now, and its log says what it does"
            )
        if not changed.parted:
            return ""
        one = changed.parted[min(changed.parted)]
        more = f", as {len(changed.parted) - 1} other partitions" if len(changed.parted) > 1 else ""
        return (
            f"{one.partition} on {source} has lost what lay from offset {one.offset} on{more}, and {flow.name} has not "
            "gone on there yet: its log says what it does"
        )

    def _discovered(self, names: Sequence[str]) -> str:
        """Orders that the flow looks for topics, once for each; gives their names, for people."""
        if not self._ordered >= set(names):
            discover(self._store)
            self._ordered |= set(names)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return f"topic {names[0]}{more}"

    def _both_ends(self) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Up to where readers get, and up to where anything was written; of copies what others wrote counts."""
        committed, high = self._ends(committed=True), self._written()
        return {place: min(end, high.get(place, end)) for place, end in committed.items()}, high

    def _written(self) -> dict[TopicPartition, int]:
        """Up to where anything was written to the source, of copies by others than the flow that makes them."""
        high = self._ends(committed=False)
        if self._homeward:  # the flow that makes the copies is stopped
            return high
        return high | {place: one.end for place, one in self._others.look(high).items()}

    def _ends(self, *, committed: bool) -> dict[TopicPartition, int]:
        return look.source_ends(self._sides, committed=committed)

    def _idle(self, operation: Operation) -> None:
        """Waits until no group has members on the source: what they would still commit there would be read again."""
        options = Options.of(operation.facts)
        deadline = time.monotonic() + options.timeout_s
        said: list[str] = []
        while True:
            left_ms = max(look.REACH_MS, int(1000 * (deadline - time.monotonic())))
            groups = look.chosen_groups(self._sides, min(left_ms, self._timeout_ms), complete=True)
            active = sorted(name for name, each in groups.items() if each.active)
            if not active:
                return
            if active != said:
                self._tell(f"groups have members on the source, and are to be stopped there: {', '.join(active[:10])}")
                said = active
            if time.monotonic() > deadline:
                raise SparkmirrorError(
                    f"{len(active)} groups still have members on cluster {self._sides.source.alias}, {active[0]} among "
                    "them: stop them and run the command again, or take it back with --abandon"
                )
            time.sleep(ASK_SECONDS)

    # --------------------------------------------------------------------------------------------- the flow is stopped

    def _stop(self, operation: Operation) -> None:
        """Has the flow drained and ended, or takes it from a driver that is dead, and settles it."""
        flow = self._sides.flow
        reason = f"{operation.kind} to {operation.target} ({operation.id})"
        held = self._store.state.held
        if held is not None and held.operation not in holders(
            operation
        ):  # by one that has ended, whose hold is to stay
            self._operator.note(**{HELD_BEFORE: [held.operation, held.reason, held.time_ms, held.by, held.order]})
        hold = HoldOrder(
            operation=operation.id, reason=reason, time_ms=now_ms(), by=operation.by, order_ms=operation.order
        )
        self._store.write([hold])
        gone = operation.kind == Kind.FAILOVER.value and not operation.facts.get("answers")
        most, told = patience(flow.stop_timeout_ms, gone=gone), time.monotonic()
        self._store.follow()
        while is_waited_for(self._store.state, self._store.heard, time.monotonic() - told, most):
            time.sleep(LOOK_SECONDS)
            self._store.follow()
        self._operator.check()  # another one may have brought the operation to its end meanwhile
        torn = self._torn() if self._is_clean() else ()
        doubtful = self._store.state.in_doubt()
        if not self._is_clean():
            self._tell("the flow's driver does not answer: it is fenced, and the target's own logs are read")
        elif torn:
            self._tell(self._said_of_torn(torn))
        elif doubtful:
            self._tell(
                f"a run before the last did not end cleanly, and of {len(doubtful)} partitions nothing is on record "
                "since: the target's own logs are read"
            )
        if torn or doubtful or not self._is_clean():
            self._settle(torn)

    def _settle(self, torn: Sequence[TopicPartition]) -> None:
        """Has the target's own logs read, and puts on record where each partition stands."""
        flow, target = self._sides.flow, self._sides.target
        lacks: list[str] = []
        check = self._check_hold
        unsettled = settle(flow, target, self._file, SETTLE_SECONDS, torn, check=check, tell=lacks.append)
        rows = [[*place, why] for place, why in sorted(unsettled.items())]
        self._operator.note(**{UNSETTLED: rows})
        note_lacks(self._operator, lacks, self._tell)
        self._store.follow()

    def _check_hold(self, state: JournalState) -> None:
        """This process may have stood still while another one has ended the operation and released the flow.

        Raises:
            SparkmirrorError: the flow is not to be taken from its driver.
        """
        check_still_held(self._sides.flow, state, holders(self._newest))
        self._operator.prove()

    def _said_of_torn(self, torn: Sequence[TopicPartition]) -> str:
        where = f"{torn[0]} and {len(torn) - 1} other partitions" if len(torn) > 1 else str(torn[0])
        here = self._sides.flow.target.alias
        return f"{here} lacks what the flow had written of {where}: the target's own logs are read"

    def _check_copies(self, operation: Operation) -> None:
        """The target may have lost the end of a log since the flow was stopped.

        A switchover loses nothing: before it has moved a group it can be taken back, and the flow copies what is lost.
        """
        if operation.kind == Kind.SWITCHOVER.value and not operation.facts.get(COMMITTING):
            lost = comparison.lost_here(self._sides)
            if lost:
                one, here = lost[0], self._sides.flow.target.alias
                raise SparkmirrorError(
                    f"{one.copy}: {here} has lost what had been copied there from offset {one.offset} on, offsets "
                    f"{one.first} to {one.last} of {one.partition}: take the operation back with --abandon, let "
                    f"{self._sides.flow.name} copy them again, and begin it again"
                )
        elif torn := self._torn():
            self._tell(self._said_of_torn(torn))
            self._settle(torn)

    def _torn(self) -> tuple[TopicPartition, ...]:
        """The source partitions of which the target has lost something since, by its leader epochs; noted for later."""
        timeout_ms = min(self._timeout_ms, look.OLDEST_MS)
        lost = lost_copies(self._sides.flow, self._sides.target, self._store.state.progress, timeout_ms)
        if lost.found:
            known = look.torn_in(self._operator.operation)
            torn = known | {place: min(at, known.get(place, at)) for place, at in lost.found.items()}
            self._operator.note(**{TORN: [[*place, at] for place, at in sorted(torn.items())]})
        return tuple(sorted(lost.found))

    def _is_clean(self) -> bool:
        return self._store.state.is_stopped

    def _check_ends(self) -> None:
        """A planned operation stops behind the last record: the source is asked again when nothing is copied."""
        ends = self._ends(committed=False)
        if changed := changes(self._sides, ends).troubles(*self._aliases):
            raise SparkmirrorError(
                f"{changed[0]}: take the operation back with --abandon, let {self._sides.flow.name} copy what is there "
                "now, and begin it again"
            )
        late = records_behind(self._sides, self._store.state, ends)
        if late:
            raise SparkmirrorError(
                f"{_total(late)} came to the source while the flow was being stopped or since, most in "
                f"{max(late, key=late.__getitem__)}: stop their producers, take the operation back with --abandon, and "
                "begin it again"
            )
        if unbegun := self._unbegun():
            raise SparkmirrorError(
                f"others have written to {unbegun[0]} while the flow was being stopped or since, and "
                f"{self._sides.flow.name} has not begun to bring that home: stop their producers, take the operation "
                "back with --abandon, and begin it again"
            )

    def check_members(self) -> None:
        """The operation may have stood still since groups had left the source.

        Raises:
            SparkmirrorError: groups have members there again, or it cannot be asked.
        """
        groups = look.chosen_groups(self._sides, complete=True)
        active = sorted(name for name, each in groups.items() if each.active)
        if active:
            raise SparkmirrorError(
                f"{len(active)} groups have members on cluster {self._sides.source.alias} again, {active[0]} among "
                "them: stop them and run the command again, or take it back with --abandon"
            )

    def _left(self, ends: Mapping[TopicPartition, int]) -> Left:
        """What is missing on the target, of what the source has up to these offsets."""
        starts = admin.list_offsets(self._sides.source, list(ends), OffsetSpec.EARLIEST, timeout_ms=self._timeout_ms)
        starts |= self._others.starts(ends)
        ranges = {place: (starts[place], end) for place, end in ends.items()}
        left, held_up = outstanding(str(self._sides.flow.name), ranges, self._store.state), dict[TopicPartition, str]()
        if left.partitions:
            with suppress(SparkmirrorError):  # only what is said of it depends on that
                held_up = self._obstacles.look(ends)
        return outstanding(str(self._sides.flow.name), ranges, self._store.state, held_up=held_up) if held_up else left

    # ------------------------------------------------------------------------------------------------ groups are moved

    def _move(self, operation: Operation) -> None:
        """Commits for every group where it goes on at the target."""
        self.settle_commits()
        self._check_copies(operation)
        if operation.kind == Kind.SWITCHOVER.value and not operation.facts.get(COMMITTING):
            self.deny_again()
            self.check_members()
            self._check_ends()
            self._operator.note(**{UNBROUGHT: unbrought.rows_of(self._wanting(Kind(self._newest.kind)))})
            self.remember_groups()
        elif operation.kind == Kind.SWITCHOVER.value or operation.facts.get("answers"):
            with look.answering(self._sides) as sides:  # a source that still answers knows better than the record
                if sides is not None:
                    self._ask_again(sides)
        self.commit(self._decided)

    def _ask_again(self, sides: Sides) -> None:
        """Asks a source that answers, be it in part, of its logs and of its groups; what it does not say is told."""
        untold = [*self._ask_of_logs(sides)]
        if self._newest.kind == Kind.FAILOVER.value:
            untold += self._ask_of_copies()
        source, unasked = self._aliases[0], chosen_groups.on_record(self._store.state)
        try:
            seen = self.remember_groups(look.ASK_MS, sides)
        except SparkmirrorError as failure:
            untold.append(f"groups could not be asked on {source} and go by what was seen last: {failure}")
        else:
            unasked = set(seen.unreadable)
            untold += unread_groups(seen.unreadable, seen.asked.log, source)
        with look.answering(sides) as still:
            if still is None:  # it went meanwhile: a source that is gone says nothing, and nobody expects it to
                return
        self._operator.note(**{UNASKED: sorted(unasked), UNTOLD: untold})
        for text in untold:
            self._tell(text)

    def _ask_of_copies(self) -> Iterator[str]:
        """Notes the copies of which nothing brings what others wrote to them; gives why that is not known."""
        try:
            self._operator.note(**{UNBROUGHT: unbrought.rows_of(self._wanting(Kind(self._newest.kind)))})
        except SparkmirrorError as failure:
            yield f"whether others have written to copies on {self._aliases[0]} is not known: {failure}"

    def _ask_of_logs(self, sides: Sides) -> Iterator[str]:
        """Notes whether the source's logs are still those that were copied; gives of which that is not known."""
        source = self._aliases[0]
        try:
            ends = look.found_ends(sides, look.ASK_MS)
            facts = changes(sides, ends.found, look.ASK_MS).facts
        except SparkmirrorError as failure:
            yield f"whether the logs of {source} are still those that were copied is not known: {failure}"
            return
        self._operator.note(**facts)
        if ends.failed:
            (place, why), *_ = sorted(ends.failed.items())
            yield (
                f"{len(ends.failed)} partitions of {source} have no leader that answers, {place} among them: what they "
                f"took since they were seen last, and whether they have lost something, is not known ({why})"
            )

    def _decided(self) -> tuple[moves.GroupMove, ...]:
        return moves.decide(look.sight(self._sides, self._maps, self._operator.operation))

    def settle_commits(self) -> None:
        """Puts on record which commits the target has taken that were tried when the command was broken off.

        A group with another offset than it had before was moved: it stands there, or a consumer has gone on. Where it
        stands at none of those that were tried in one request, a consumer may as well have been there before.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        operation = self._operator.operation
        assert operation is not None  # it was begun
        tried = tried_in(operation)
        if not tried:
            return
        groups = sorted({one.group for one in tried})
        now = fetch_offsets(self._sides.target, groups, self._timeout_ms).complete()
        found = settled(tried, now, look.moved_by(operation))
        self._store.follow()
        self._store.write(*group_commits.records(self._store.state.committed, found.taken))
        moved = {*found.taken, *look.moved_by(operation)}
        facts = {
            MOVED: sorted(moved),
            UNSURE: unsure_rows(unsure_in(operation) | found.unsure),
            TRIED: [one.row for one in found.open],
            EARLIER: with_before(operation.facts.get(EARLIER, {}), found.had),
        }
        self._operator.note(**facts)

    def commit(self, decide: Callable[[], Sequence[moves.GroupMove]]) -> None:
        """Commits on the target what is not there yet, and puts on record that the flow has done so.

        What others commit there for a group meanwhile stays, and it is decided once more where that group goes on.

        Args:
            decide: looks at all groups, and says where they go on.

        Raises:
            SparkmirrorError: not all could be committed; those that were stay.
        """
        by_group = {move.group: move for move in decide()}
        self._operator.check()
        if any(move.wanted for move in by_group.values()):  # what groups leave behind is on record in any case
            self._announce(by_group.keys())
            self._operator.note(**{COMMITTING: True})
        wanted = sum(bool(move.missing) for move in by_group.values())
        refused = self._commit(tuple(by_group.values()))
        # In a failback what a group has there is of no use once it has left, so nothing would keep it on another look.
        for looks_left in reversed(range(1 + (0 if self._homeward else LOOKS_AGAIN))):
            if tried := {name for name, why in refused.items() if isinstance(why, ChangedError) and why.tried}:
                self.settle_commits()  # it may have been moved, and knows these groups as such from now on
                refused = self._once_more(tried, decide, by_group, refused)
            changed = {name for name, why in refused.items() if isinstance(why, ChangedError)}
            if not looks_left or not changed or not all(map(_is_in_use, refused.values())):
                break
            time.sleep(ASK_SECONDS)
            refused = self._once_more(changed, decide, by_group, refused)
        decided = tuple(by_group.values())
        in_use = {name: why for name, why in refused.items() if _is_in_use(why)}
        not_taken = {name: str(why) for name, why in refused.items() if _is_not_taken(why)}
        failed = {name: why for name, why in refused.items() if name not in in_use and name not in not_taken}
        done = look.moved_by(self._operator.operation).difference(refused)
        self._tell(f"moved: {moves.count(decided, {move.group for move in decided} - done).text}")
        if failed:
            name, why = next(iter(sorted(failed.items())))
            behind = cause(why)
            raise SparkmirrorError(
                f"the offsets of {len(failed)} of {wanted} groups could not be committed on cluster "
                f"{self._sides.target.alias}: {name}: {why}{f': {behind}' if behind else ''} (mend it, and run the "
                "command again: it goes on here)"
            )
        changing = sorted(name for name, why in in_use.items() if isinstance(why, ChangedError))
        apart = {move.group for move in decided if move.hindrance or (move.kept and not move.left)} | in_use.keys()
        self._operator.note(
            active=sorted(in_use.keys() - set(changing)),
            changing=changing,
            **{NOT_TAKEN: sorted(map(list, not_taken.items()))},
            **({} if self._homeward else {APART: sorted(apart)}),
        )

    def _once_more(
        self,
        groups: Collection[str],
        decide: Callable[[], Sequence[moves.GroupMove]],
        by_group: dict[str, moves.GroupMove],
        refused: Mapping[str, BrokerError | LinkError],
    ) -> dict[str, BrokerError | LinkError]:
        """Decides and commits for some groups again; gives all that refuse now."""
        again = tuple(move for move in decide() if move.group in groups)
        by_group |= {move.group: move for move in again}
        return {name: why for name, why in refused.items() if name not in groups} | self._commit(again)

    def _commit(self, decided: Sequence[moves.GroupMove]) -> dict[str, BrokerError | LinkError]:
        """Commits what these groups lack on the target; gives why some refused.

        What a broker says of one group alone keeps no other from being moved; what may be so for all ends this.
        """
        if void := [place for move in decided for place in move.void]:
            self._store.write(*group_commits.records(self._store.state.committed, {}, void))
        refused: dict[str, BrokerError | LinkError] = {}
        for some in _in_portions(decided):
            now = {move.group: missing for move in some if (missing := move.missing)}
            if now:
                self._operator.note(**{TRIED: self._tried(some)}, **self._again(some))
            there = {move.group: move.found for move in some}
            done = commit_offsets(self._sides.target, now, self._timeout_ms, prove=self._operator.prove, there=there)
            refused |= done.failed
            broken = not all(map(_is_its_own, done.failed.values()))
            with suppress(*((SparkmirrorError,) if broken else ())):  # what is not on record is asked for again
                self._put_on_record(some, done.failed)
            if broken:
                break
        return refused

    def _again(self, some: Sequence[moves.GroupMove]) -> dict[str, Any]:
        """What goes on record of groups that are moved once more, before they are."""
        rows, operation = [row for move in some for row in move.again], self._operator.operation
        if not rows or operation is None:
            return {}
        unsure = unsure_in(operation).union((group, place) for group, place, _ in rows)
        return {AGAIN: added(operation.facts.get(AGAIN, {}), rows), UNSURE: unsure_rows(unsure)}

    def _tried(self, some: Sequence[moves.GroupMove]) -> list[list[Any]]:
        """What is about to be committed, for the record."""
        before, groups = tried_in(self._operator.operation), {move.group for move in some}
        return [one.row for one in with_tried(before, groups, _tried(some))]

    def _put_on_record(self, decided: Sequence[moves.GroupMove], failed: Mapping[str, Exception]) -> None:
        """What the target has taken, which groups that concerns, and what they leave behind on the source.

        The last comes last: of a group that is not on record as moved it would say that it lives there already.
        """
        moved = [move for move in decided if move.wanted and move.group not in failed]
        taken = {move.group: move.commits for move in moved}
        written, gone = group_commits.records(self._store.state.committed, taken)
        operation = self._operator.operation
        assert operation is not None  # it was begun
        left = with_left(self._store.state.left, {move.group: move.left_on_record for move in moved}, operation.order)
        self._store.write(written, tombstones=gone)
        moved_so_far = {*(move.group for move in moved), *look.moved_by(operation)}
        open_ones = {name for name, why in failed.items() if not _is_in_use(why) or getattr(why, "tried", False)}
        settled_ones = {move.group for move in decided}.difference(open_ones, look.moved_by(operation))
        settled_ones |= {move.group for move in moved}
        facts = {
            MOVED: sorted(moved_so_far),
            TRIED: [one.row for one in tried_in(operation) if one.group not in settled_ones],
            EARLIER: with_before(operation.facts.get(EARLIER, {}), [row for move in moved for row in move.changed]),
        }
        doubtful = {
            (move.group, place.target) for move in decided for place in move.doubtful if place.target is not None
        }
        if doubtful - (unsure := unsure_in(operation)):
            facts[UNSURE] = unsure_rows(unsure | doubtful)
        self._operator.note(**facts)
        self._store.write(left)

    def _verify(self, operation: Operation) -> None:
        """Looks whether every group can start on the target, and whether the source has been left."""
        is_planned = operation.kind == Kind.SWITCHOVER.value
        torn = [*self._again_before_what_was_lost(operation)]
        late = (*self.deny_again_at_the_end(), *self._late_at_the_source()) if is_planned else ()
        seen = (
            *((lost_start.said(self._sides.flow.name),) if operation.facts.get(LOST_START) else ()),
            *operation.facts.get(UNTOLD, ()),
            *operation.facts.get(NOT_HOME, ()),
            *Changes.of(operation.facts).troubles(operation.source, operation.target),
            *unbrought.troubles(
                unbrought.of_rows(operation.facts.get(UNBROUGHT, ())), operation.source, operation.target
            ),
        )
        passed, decided = self._again_where_something_is_gone()
        again = told_of_again(earlier_in(self._operator.operation), operation.target)
        state = self._store.state  # where no group was ever seen there may be none
        old = old_groups.said_of(self._sides.flow, state, operation.began_ms) if state.groups else ()
        old += old_groups.said_of_returned(returned_in(operation), operation.source, operation.target)
        old += self._said_of_unfollowed(decided)
        told = (
            *moves.kept(decided, operation.target),
            *moves.further_on_return(decided, operation.facts.get(CAME_BACK, ()), operation.target),
            *moves.seen_before_a_loss(decided),
        )
        self.look_after(decided, (*seen, *self._copies_recreated(), *told, *torn, *again, *passed, *late, *old))

    def _said_of_unfollowed(self, decided: Sequence[moves.GroupMove]) -> tuple[str, ...]:
        since, known = since_in(self._operator.operation), returned_in(self._operator.operation)
        names = not_asked_since(since, self._store.state.groups_seen, {move.group for move in decided} - known.keys())
        return old_groups.said_of_unfollowed(since, names, self._sides.flow.name)

    def _again_where_something_is_gone(self) -> tuple[tuple[str, ...], tuple[moves.GroupMove, ...]]:
        """Moves groups once more that have what they had before they were moved, or nothing, or stand at no record.

        Also those that stand beyond where the target's own log has lost its end. Gives what is said of those two, and
        where all go on.
        """
        decided, (_, there), back = self._decided(), self._aliases, str(self._sides.flow.name.back)
        passed = moves.told_of_passed(decided, there)
        gone = [move for move in decided if move.again and move.missing]
        beyond = [move for move in decided if move.torn and move.missing]
        if gone or passed or beyond:
            told = moves.told_of_own_lost(beyond, there, back)
            for text in (*([moves.said_of_again(gone)] if gone else ()), *passed, *told):
                self._tell(text)
            self.commit(self._decided)
            decided = self._decided()
        return (*passed, *moves.told_of_own_lost(decided, there, back)), decided

    def _again_before_what_was_lost(self, operation: Operation) -> Iterator[str]:
        """Moves groups back that stand in what the target has lost since they were moved; gives what to say of it."""
        if torn := self._torn():
            self._tell(self._said_of_torn(torn))
            self._settle(torn)
            self.commit(self._decided)
            names = ", ".join(map(str, torn[:3])) + (" and more" if len(torn) > 3 else "")
            yield (
                f"{operation.target} has lost the end of its copies of {names} since groups were moved: they were "
                "moved once more, to what is left"
            )

    def _copies_recreated(self) -> tuple[str, ...]:
        flow, progress = self._sides.flow, self._store.state.progress
        here = flow.target.alias
        again = recreated_copies(flow, self._sides.target, progress, self._timeout_ms)
        return tuple(
            f"topic {topics.remote_topic(flow, name)} was deleted and created again on {here} since {name} was copied "
            "to it: nothing of the copy is there, and groups have no place in it"
            for name in sorted({place.topic for place in again})
        )

    def _late_at_the_source(self) -> tuple[str, ...]:
        """What applications have done there since the flow was stopped and groups were asked for."""
        source, state = self._sides.source.alias, self._store.state
        try:
            look.check_source(self._sides)  # one that is gone is not asked at length
            late = records_behind(self._sides, state, self._ends(committed=False))
            found, log = lost_groups.ask_with_lost(
                self._sides.source,
                lambda: look.offsets_now(self._sides, look.ASK_MS),
                state.groups_seen,
                look.ASK_MS,
            )
            groups = look.chosen_groups(self._sides, look.ASK_MS, complete=True)
        except SparkmirrorError as failure:
            what = f"whether records or commits came to {source} after the flow was stopped is not known"
            return (f"{what}, nor whether groups have members there: {failure}",)
        known, _ = look.on_record(state)
        chosen = look.chooser_of(self._sides)
        recorded = (one for one in state.groups.values() if chosen(one.group))
        now = lost_groups.with_lost(recorded, found, log)
        changed = sorted(name for name, own in now.offsets.items() if own != known.get(name, {}))
        records = [_late_records(late, source)] if late else []
        commits = (_late_commit(name, source, self._sides.target.alias) for name in changed)
        open_ones = (
            f"whether group {name} has committed on {source} after its offsets were read is not known: "
            f"{lost_groups.not_known(self._sides.source, name, log)}"
            for name in sorted(now.unknown)
        )
        return (*records, *commits, *open_ones, *moves.have_members(groups, str(source)))

    def look_after(self, decided: Sequence[moves.GroupMove], more: Sequence[str] = ()) -> None:
        """Writes checkpoints for groups that were moved, and notes what is wrong with them, and what else is.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        not_taken = look.not_taken(self._operator.operation)
        chosen = [move for move in decided if not move.hindrance and move.group not in not_taken]
        now = fetch_offsets(self._sides.target, [move.group for move in chosen], self._timeout_ms).complete()
        places = sorted({place for move in chosen for place in move.wanted})
        starts, ends = (
            admin.find_offsets(self._sides.target, places, spec, timeout_ms=min(self._timeout_ms, look.OLDEST_MS)).found
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
        self._operator.check()
        if unwritten := write_last(self._sides, chosen):  # groups go on without, so it is no trouble
            self._tell(unwritten)
        forgotten = self._forgotten(decided)
        problems = [*more, *self.left_out_since(), *moves.landed(chosen, now, starts, ends)]
        self._operator.note(problems=problems, **{FORGOTTEN: forgotten})

    def left_out_since(self) -> tuple[str, ...]:
        """What is said of topics and groups that the flow deals with, and that the file of this command leaves out."""
        return narrowed.since(self._sides.flow, self._store.state)

    def _forgotten(self, decided: Sequence[moves.GroupMove]) -> list[list[Any]]:
        """Groups and partitions that are not on record any more, and still have the flow's offset on the target."""
        self._store.follow()
        unasked = chosen_groups.left_out(self._sides.flow, self._store.state)
        commits = {
            group: own
            for group, own in commits_of(self._store.state.committed.values()).items()
            if group not in unasked
        }
        groups = sorted(moves.forgotten(commits, decided))
        if not groups:
            return []
        now = fetch_offsets(self._sides.target, groups, self._timeout_ms).found
        found = moves.forgotten(commits, decided, now)
        return [[group, *place, now[group][place].offset] for group, own in found.items() for place in own]

    def remember_groups(self, timeout_ms: int | None = None, sides: Sides | None = None) -> Seen:
        """Puts on record what groups have committed on the source now, and what they have no more.

        Args:
            timeout_ms: of each question, where there is haste: groups that do not answer go by what is on record.
                Without, each group that the source lists has to answer, with what transactions commit for it.
            sides: the flow's, connected in another way.

        Raises:
            SparkmirrorError: the source cannot be asked, or the target cannot be written to.
        """
        at, chosen, recorded = now_ms(), look.chooser_of(self._sides), self._store.state.groups.values()
        # Of any other group nothing is asked, so nothing of it changes on record.
        known = {one.key: one for one in recorded if chosen(one.group)}
        before, patience_ms = self._store.state.groups_seen or GroupsSeen(time_ms=0), timeout_ms or self._timeout_ms
        sides = self._sides if sides is None else sides
        by_back = UpstreamOffsets(sides, timeout_ms)
        settled: Moved = {}
        with suppress(SparkmirrorError):  # that it cannot be read is told below
            settled = by_back.moved()
        asked, log = committed_before(sides, known, before, patience_ms, complete=timeout_ms is None, chosen=chosen)
        offsets, back_ms, placed = asked.found, 0, NOT_PLACED
        parted = lost_groups.parted_in(self._store.state)
        try:
            back_ms, placed = by_back.order(), by_back.placed(before.moved_ms)
            answered = (one for one in known.values() if one.group in offsets)
            merged = lost_groups.with_lost(answered, offsets, log, placed, parted)
            upstream = by_back.of(merged.offsets, known, patience_s=PATIENCE_SECONDS)
            taken, _ = group_commits.records(self._store.state.committed, by_back.taken_from_target())
            self._store.write(taken)
        except SparkmirrorError as failure:
            back = self._sides.flow.name.back
            self._tell(f"the record of {back} cannot be read: groups in its copies go by what was seen last: {failure}")
            upstream = upstream_on_record(known, offsets)
        came = moved_here(self._store.state.left.values(), settled)
        self._operator.note(**{CAME_BACK: sorted(came.intersection(offsets))})
        origin = lost_groups.ask(sides.source, topics_of_gone(known, asked), patience_ms)
        seen = Seen(
            found=offsets,
            unreadable={group: str(why) for group, why in asked.failed.items()},
            at_ms=at,
            asked=replace(origin, log=log),
            ids=ids_where_committed(sides, self._store.state.progress, offsets, patience_ms),
            back_ms=back_ms,
            settled=settled,
            placed=placed,
            parted=parted,
        )
        found = news(known, before, seen, upstream)
        unread = {one.group: before.read_ms(one.group) for one in recorded if one.key not in known}
        at_now = replace(found.at, unread={**found.at.unread, **unread})
        self._store.write([*found.seen, at_now], tombstones=found.gone)
        for each in lost(known, before, seen):
            self._tell(each.text(self._aliases[0]))
        for group, why in sorted(asked.failed.items()):
            self._tell(f"group {group} does not answer on {self._aliases[0]} and goes by what was seen last: {why}")
        self._store.follow()
        return seen

    # ------------------------------------------------------------------------------------------------ and the way back

    def _undo(self, operation: Operation) -> None:
        """Takes back what was done: the flow goes on, producers may write again."""
        self._store.follow()
        held, before = self._store.state.held, operation.facts.get(HELD_BEFORE)
        if held is not None and (before or held.operation not in holders(operation)):
            self._tell("what an earlier operation has done stays")
        else:
            self._allow_if_it_answers(operation)
        if held is None or held.operation not in holders(operation):
            return
        if before:
            by_operation, reason, time_ms, by, *order = before
            hold = HoldOrder(operation=by_operation, reason=reason, time_ms=time_ms, by=by, order_ms=sum(order))
            self._store.write([hold])
            self._tell(f"{self._sides.flow.name} stays held, by {reason}")
        else:
            self._store.write([], tombstones=[HOLD_KEY])
            self._tell(f"{self._sides.flow.name} is released")

    def _allow_if_it_answers(self, operation: Operation) -> None:
        """A source that is gone keeps no operation from being taken back: what is denied there stays on record."""
        rows = operation.facts.get(FENCE, [])
        try:
            if rows:
                admin.cluster_id(self._sides.source, look.REACH_MS)
            self.allow(operation)
        except SparkmirrorError as failure:
            if not cause(failure):
                raise
            self._tell(
                f"writing to {len(rows)} topics stays denied on {self._sides.source.alias}, which does not answer: "
                f"sparkmirror release {quote(self._file)} --flow '{self._sides.flow.name}' allows it when it does "
                f"({failure})"
            )

    def allow(self, operation: Operation, fact: str = FENCE) -> tuple[str, ...]:
        """Lets producers write to the source again.

        Returns:
            the topics on record that the flow has nothing to do with: their rules stay.

        Args:
            operation: that has denied it.
            fact: where that is on record.

        Raises:
            SparkmirrorError: the source cannot be asked, or refuses.
        """
        rows = operation.facts.get(fact, [])
        own = partial(own_topics.at_source, self._sides.flow, self._store.state.progress)
        strange = lifted.let_in(self._operator, self._sides.source, rows, fact, own, self._timeout_ms, self._tell)
        if rows and lifted.may_come_late(operation):
            self._tell(lifted.said_of_late(self._sides.flow.name, self._sides.source.alias, self._file))
        return strange


def carry_out(
    operator: Operator, flow: FlowName, do: Callable[[Step, Operation], None], tell: Callable[[str], None]
) -> Operation:
    """Does the steps of an operation from the one on record to the end.

    Args:
        operator: who has it.
        flow: on whose record it is.
        do: does one step.
        tell: is given what is being done.

    Raises:
        SparkmirrorError: a step could not be done, or somebody else has the operation.
    """
    while True:
        operation = operator.operation
        assert operation is not None  # it was begun
        step = Step[operation.step]
        if step in ENDED:
            return operation
        tell(f"{step.value} …")
        try:
            _do(operator, do, step, operation)
        except SparkmirrorError as failure:
            said = told_of(failure, operator.operation or operation, flow)
            with suppress(SparkmirrorError):
                operator.fail(str(said))
            if said is failure:
                raise
            raise said from failure


def _do(operator: Operator, do: Callable[[Step, Operation], None], step: Step, operation: Operation) -> None:
    """Does one step, and puts the next on record."""
    began = now_ms()
    operator.check()
    do(step, operation)
    newest = operator.operation
    assert newest is not None
    times = {**newest.facts.get("times", {}), step.name: [began, now_ms()]}
    operator.go_to(following(Kind(operation.kind), step), times=times)


def unread_groups(unread: Mapping[str, str], log: OffsetsLog, source: str) -> Iterator[str]:
    """What is told of groups of a source that answers, and that it has not said anything of.

    Args:
        unread: why, by group.
        log: how far the topic with their offsets goes.
        source: the cluster.
    """
    if unread:
        names = sorted(unread)
        yield (
            f"{len(names)} groups do not answer on {source} and go by what was seen last: {plan.some(names)}: what "
            f"they have read since is read again, and what they have set back is skipped ({unread[names[0]]})"
        )
    if log.silent:
        yield (
            f"{len(log.silent)} partitions of {OFFSETS_TOPIC} of {source} do not say how far they go: groups there "
            "that are not on record are not known, and not moved"
        )


def _late_records(late: Mapping[TopicPartition, int], source: str) -> str:
    return (
        f"{_total(late)} came to {source} after the flow was stopped, and only {source} has them: stop the producers "
        "there; a failback puts such records aside"
    )


def _late_commit(group: str, source: str, target: str) -> str:
    return (
        f"group {group} committed on {source} after its offsets were read; on {target} it goes on at the older place: "
        f"stop its consumers on {source}"
    )


def _total(late: Mapping[TopicPartition, int]) -> str:
    return f"{sum(late.values())} records of {len(late)} partitions"


def _in_portions(decided: Sequence[moves.GroupMove]) -> Iterator[tuple[moves.GroupMove, ...]]:
    """Groups, about `COMMITS_AT_ONCE` offsets at a time."""
    some: list[moves.GroupMove] = []
    offsets = 0
    for move in decided:
        some.append(move)
        offsets += len(move.missing)
        if offsets >= COMMITS_AT_ONCE:
            yield tuple(some)
            some, offsets = [], 0
    if some:
        yield tuple(some)


def _tried(some: Sequence[moves.GroupMove]) -> Iterator[Tried]:
    """What is about to be committed, and what was there before."""
    for move in some:
        requests = requests_of(move.group, move.missing)
        for place in move.places:
            if place.target in requests:
                yield Tried(
                    group=move.group,
                    place=place.target,
                    before=place.before,
                    offset=place.offset,
                    upstream=place.committed.offset,
                    request=requests[place.target],
                )


def _is_its_own(failure: Exception) -> bool:
    """Whether a failure says nothing of other groups."""
    return _is_in_use(failure) or (isinstance(failure, BrokerError) and advice(failure.code) is Advice.GIVE_UP)


def _is_not_taken(failure: Exception) -> bool:
    """Whether the cluster does not take the offsets of a group, however often they are sent."""
    return isinstance(failure, BrokerError) and failure.code in TAKEN_BY_NONE


def _is_in_use(failure: Exception) -> bool:
    """Whether a group was left alone because others use it on the target: it has members, or they commit for it."""
    has_members = isinstance(failure, BrokerError) and failure.code in HAS_MEMBERS
    return has_members or isinstance(failure, ChangedError)

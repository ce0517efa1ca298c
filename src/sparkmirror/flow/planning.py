"""Plans for partitions, whatever became of them before: asks, takes over what must be taken over, decides the starts.

Invariants:
    * A plan never gives out a sequence number that its writer epoch has seen in the partition before, unless the
      partition goes on exactly there.
    * A partition without a position on record gets one here, before a lane has it: where ``latest`` is, and which
      record is the first of a time, is another offset a moment later. So does one that goes back, or on elsewhere or in
      another topic: whoever found the old position again would decide the same again, and copy all since a second
      time. Lanes publish after that, so the order of the log is that of the holders.
    * An event is on record before what it tells of is done: who finds it done finds the event too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import PartitionPlan, group_of
from sparkmirror.duties.copied_records import CopiedRecords
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.left_out import LeftOut, epochs_of
from sparkmirror.flow.occupied import Occupied, TargetLogs
from sparkmirror.flow.on_record import NOTHING_CHANGES, behind_records, first_begins, going_on
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planner import Pairs, patience_ms, starts_of
from sparkmirror.flow.positions import Resumed, Start
from sparkmirror.flow.resuming import Resuming
from sparkmirror.flow.takeover import Takeover
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import Copied, TopicPartition, Writer
from sparkmirror.offsets.duty_records import OccupiedTopic
from sparkmirror.offsets.inherited import bounds_of
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Happened, SourceEpoch
from sparkmirror.offsets.writers import Unfenceable

COMPARE_MS = 10_000
"""For reading the first records of an epoch and their copies, where a source has lost something."""

FORGOTTEN_ID = "the coordinator has given its group another producer id: it is taken over first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What became of a wish for plans.

    Attributes:
        plans: of the partitions that may begin.
        events: what is to be told of some of them.
        waiting: why others do not begin now, and for how many seconds at least.
        to_take_over: those of them that may not go on from where they settled.
        nearer: those of them that come nearer with each try.
    """

    plans: tuple[PartitionPlan, ...]
    events: tuple[tuple[TopicPartition, Event], ...]
    waiting: Mapping[TopicPartition, tuple[Event, float]]
    to_take_over: frozenset[TopicPartition] = frozenset()
    nearer: frozenset[TopicPartition] = frozenset()


def on_replaced_ids(settled: Mapping[TopicPartition, Resumed], writers: Sequence[Writer]) -> frozenset[TopicPartition]:
    """Partitions whose group has changed its producer id since they came to rest: they go on with the group's new id.

    Progress is ordered by generation and epoch, and a change of ids raises the generation. Progress under the old id
    and the new generation would be newer than what the new id writes later.

    Args:
        settled: where partitions go on that came back with nothing unacknowledged.
        writers: the newest of each group.
    """
    groups = len(writers)
    return frozenset(
        here
        for here, where in settled.items()
        if where.writer.producer_id != writers[group_of(here, groups)].producer_id
    )


class Planning:
    """Makes the plans of one flow.

    Args:
        config: of the flow.
        opened: what its opening gave.
        source, target: for questions.
        homecoming: knows where what others wrote to copies may begin to go home.
        once: whether the copy ends at the source's present end.
    """

    def __init__(
        self,
        config: FlowConfig,
        opened: Opened,
        source: Cluster,
        target: Cluster,
        homecoming: Homecoming,
        *,
        once: bool,
    ) -> None:
        self._config = config
        self._opened = opened
        self._source = source
        self._target = target
        self._homecoming = homecoming
        self._once = once
        self._writers = list(opened.first)
        self._occupied = Occupied(config, TargetLogs(config, source, target, opened.source_id, opened.target_id))
        takeover = Takeover(config, target, opened, source)
        self.resuming = Resuming(config, opened, target, takeover)

    def plan(
        self, pairs: Pairs, settled: Mapping[TopicPartition, Resumed], floors: Mapping[TopicPartition, int]
    ) -> Planned:
        """Decides where partitions begin.

        Args:
            pairs: source and target partitions.
            settled: where those go on that came back with nothing unacknowledged.
            floors: recovery points that are known to be later than those on record.

        Raises:
            SparkmirrorError: a cluster cannot be asked.
        """
        resumption = self.resuming.resume(pairs, settled)
        for here, where in resumption.resumed.items():
            if here not in settled:
                self._writers[group_of(here, len(self._writers))] = where.writer
        orders = {order.partition: order for order in self._opened.store.state.moves.values()}
        starts, refused = starts_of(
            self._config,
            self._source,
            self._target,
            [pair for pair in pairs if pair[0] not in resumption.waiting],
            facts=self._opened.facts,
            progress=self._opened.store.state.progress,
            source_epoch=self._opened.store.state.source_epoch,
            history=self._opened.store.state.history,
            compare=CopiedRecords(self._config, self._source, self._target, self._maps, COMPARE_MS).compare,
            writers=self._writers,
            copied=self._copied(),
            resumed=resumption.resumed,
            moves=orders,
            floors=floors,
            home=self._homecoming.verdict,
            occupied=self._occupied.look,
            once=self._once,
        )
        waiting = {
            here: (Event(kind=Kind.STOPPED, text=each.reason), each.seconds)
            for here, each in resumption.waiting.items()
        }
        waiting |= {here: (event, 0.0) for here, event in refused.items()}
        to_take_over = self._raise_epochs(starts, settled)
        waiting |= dict.fromkeys(to_take_over, (Event(kind=Kind.STOPPED, text=FORGOTTEN_ID), 0.0))
        starts = tuple(start for start in starts if start.plan.source not in to_take_over)
        passed = self._passed_over(starts)
        plans = tuple(
            replace(
                plan, epoch_on_record=max([plan.epoch_on_record, *(one.epoch for one in passed.get(plan.source, ()))])
            )
            for plan in self._with_new_epochs(starts, settled)
        )
        self._opened.store.follow()  # what a takeover has just put on record counts
        plans = behind_records(self._opened.store.state, self._opened.run, starts, plans)
        events = tuple((start.plan.source, event) for start in starts for event in start.events)
        self._opened.store.write([Happened(partition=here, event=event) for here, event in events])
        self._record_firsts(starts, plans)
        self._obey(orders, starts, plans, resumption.resumed.keys() - settled.keys(), passed)
        self.resuming.planned(plans)
        return Planned(
            plans=self._with_begins(self._with_inherited(plans)),
            events=events,
            waiting=waiting,
            to_take_over=to_take_over,
            nearer=frozenset(here for here, each in resumption.waiting.items() if each.goes_on),
        )

    def change_ids(self, plans: Mapping[TopicPartition, PartitionPlan]) -> dict[TopicPartition, PartitionPlan]:
        """Gives groups another producer id whose epochs come to an end; ``plans`` are all that is drained.

        Raises:
            SparkmirrorError: the coordinator cannot be asked.
        """
        changed, groups = dict(plans), self._opened.writers.to_rotate
        if groups:
            self._opened.raise_generation()
        for group in groups:
            new = self._writers[group] = self._opened.writers.rotate(group).new
            for here, plan in plans.items():
                if group_of(here, len(self._writers)) == group:
                    changed[here] = plan.with_writer(new)
        return changed

    def keep_alive(self) -> None:
        """Shows the coordinator, every few hours, that the flow's producer ids are in use.

        Raises:
            FencedError: another driver has the flow.
            SparkmirrorError: the coordinator cannot be asked; it is asked again.
        """
        self._opened.writers.keep_alive(self._opened.writers.due())

    def _raise_epochs(
        self, starts: tuple[Start, ...], settled: Mapping[TopicPartition, Resumed]
    ) -> frozenset[TopicPartition]:
        """Gets an epoch that nobody has written with for those that do not go on where they were settled.

        Returns:
            those of them that must be taken over first: the coordinator gave their group another producer id.
        """
        anew, forgotten = _begin_anew(starts, settled) - on_replaced_ids(settled, self._writers), set()
        for group in sorted({group_of(here, len(self._writers)) for here in anew}):
            outcome = self._opened.writers.renew(group)
            if isinstance(outcome, Unfenceable):
                forgotten.add(group)
            else:
                self._writers[group] = outcome
        return frozenset(here for here in anew if group_of(here, len(self._writers)) in forgotten)

    def _with_new_epochs(
        self, starts: tuple[Start, ...], settled: Mapping[TopicPartition, Resumed]
    ) -> tuple[PartitionPlan, ...]:
        """Those that do not go on where they were settled begin an epoch that nobody wrote them with."""
        begins = _begin_anew(starts, settled) | on_replaced_ids(settled, self._writers)
        return tuple(
            start.plan.with_writer(self._writers[group_of(here, len(self._writers))])
            if (here := start.plan.source) in begins
            else start.plan
            for start in starts
        )

    def _with_inherited(self, plans: tuple[PartitionPlan, ...]) -> tuple[PartitionPlan, ...]:
        """The same plans with what is on record of MirrorMaker 2's copies by now."""
        store = self._opened.store
        if not store.state.inherited:
            return plans
        store.follow()
        return tuple(replace(plan, inherited=bounds_of(store.state.inherited.get(plan.source))) for plan in plans)

    def _with_begins(self, plans: tuple[PartitionPlan, ...]) -> tuple[PartitionPlan, ...]:
        """The same plans with why their epochs began, as it is on record by now."""
        maps = self._opened.store.state.maps
        return tuple(
            replace(plan, began=maps[plan.source].began(plan.writer)) if plan.source in maps else plan for plan in plans
        )

    def _record_firsts(self, starts: Sequence[Start], plans: Sequence[PartitionPlan]) -> None:
        records = first_begins(self._opened.run, starts, plans)
        if records:
            # Before a position says that the flow copies there: duties that change topics ask for both.
            occupied = self._held_before([plan for start, plan in zip(starts, plans, strict=True) if start.first])
            self._opened.store.write([*occupied, *records])
            self._opened.store.follow()

    def _held_before(self, plans: Sequence[PartitionPlan]) -> list[OccupiedTopic]:
        """The target topics of partitions that begin now, where the flow has copied to none before, and others have."""
        begun = {place.topic for place in self._opened.store.state.progress}
        new = [plan for plan in plans if plan.source.topic not in begun]
        held = self._occupied.held([(plan.source, plan.target) for plan in new])
        ids = {plan.target.topic: plan.target_id for plan in new}
        return [OccupiedTopic(topic=name, topic_id=ids[name], time_ms=now_ms()) for name in sorted(held)]

    def _obey(
        self,
        orders: Mapping[TopicPartition, MoveOrder],
        starts: Sequence[Start],
        plans: Sequence[PartitionPlan],
        taken_over: Collection[TopicPartition],
        passed: Mapping[TopicPartition, Sequence[SourceEpoch]],
    ) -> None:
        """Puts on record that partitions go on elsewhere, and ends the orders.

        That is one batch for each of them, so the next driver, after a clean end or not, finds all of it or nothing.
        """
        store = self._opened.store
        decide = partial(going_on, starts=starts, plans=plans, orders=orders, took_over=taken_over, passed=passed)
        if decide(store.state, self._opened.run) == NOTHING_CHANGES:
            return
        store.follow()
        going = decide(store.state, self._opened.run)
        store.write_by_partition(going.records, going.tombstones)
        store.follow()  # what lanes are told next no longer holds the orders

    def _passed_over(self, starts: Sequence[Start]) -> dict[TopicPartition, tuple[SourceEpoch, ...]]:
        """The leader epochs of what is left out where partitions go on further on."""
        state, left_out = self._opened.store.state, {}
        for start in starts:
            here, plan = start.plan.source, start.plan
            known = state.progress.get(here)
            if known is not None and start.anew and known.topic_id in ("", plan.topic_id):
                left_out[here] = LeftOut(
                    kept=min(known.position, start.kept),
                    to=plan.position,
                    leader_epoch=plan.leader_epoch,
                    topic_id=plan.topic_id,
                )
        return epochs_of(self._source, state, left_out, patience_ms(self._config, len(left_out)))

    def _maps(self, places: Set[TopicPartition]) -> dict[TopicPartition, OffsetMap]:
        state, ids = self._opened.store.state, self._opened.writers.ids
        return {
            place: state.maps[place].offsets(state.progress.get(place), ids) for place in places if place in state.maps
        }

    def _copied(self) -> dict[TopicPartition, Copied]:
        return {
            here: progress.copied
            for here, progress in self._opened.store.state.progress.items()
            if self._opened.is_mine(progress)
        }


def _begin_anew(starts: Sequence[Start], settled: Mapping[TopicPartition, Resumed]) -> frozenset[TopicPartition]:
    """Those that were settled in the midst of an epoch, and do not go on there."""
    begun = {here for here, where in settled.items() if where.opened}
    return frozenset(start.plan.source for start in starts if start.plan.source in begun and not start.plan.opened)

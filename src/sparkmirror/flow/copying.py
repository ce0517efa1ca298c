"""A flow that copies: its lanes, what they hand back, the topics that come, the partitions that rest.

Called by the controller once a tick, from one thread. Every step reads what is known, decides with the pure functions
of `positions`, ``copy.plan`` and `rest`, and starts or ends shifts through `lanes`.

Invariants: each partition is in exactly one of: a lane, the resting ones, the done ones; a partition is taken from a
lane that lives only when the progress by which the lane released it has been read; what a lane could not hand back
settled is taken over; a run that has lost the flow to another one writes nothing more.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import PartitionPlan, lane_count, pack
from sparkmirror.copy.receipt import Outcome
from sparkmirror.errors import FencedError, SparkmirrorError
from sparkmirror.events import ANEW, DEPARTED, Event, Kind, kind_of_stop, now_ms
from sparkmirror.flow.desk import Desk
from sparkmirror.flow.discovery import Discovery
from sparkmirror.flow.lanes import Ended, Lanes
from sparkmirror.flow.on_record import departed
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.ordering import Ordering
from sparkmirror.flow.planner import Pairs
from sparkmirror.flow.planning import Planning
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.rates import Rates
from sparkmirror.flow.recovery import Recovery
from sparkmirror.flow.rest import Resting
from sparkmirror.flow.restoring import Restoring
from sparkmirror.flow.room import Packed, must_pack_anew
from sparkmirror.flow.settled import settled_at, settled_by, settled_in
from sparkmirror.flow.shift import LaneOfShifts, onward_from
from sparkmirror.flow.showing import flow_view
from sparkmirror.flow.telling import Note, Telling, of_others, outlived, stands, unrecorded
from sparkmirror.flow.view import FlowView
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import control_topic
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import FLOW, Life, event_key

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
LIFE_SECONDS = 3.0
PROBE_MS = 3_000
"""How long the source may take to answer at all, before it is asked for more: orders and the sign of life must not wait
for all the deadlines of one that is gone."""

BURY_SECONDS = 60.0
"""Until the lanes of other runs are forgotten; they have ended long before."""

ONCE_TRIES = 5
"""How often a copy for once takes a partition up again whose lane was lost."""


class Copying:
    """One flow while it copies.

    Args:
        config: of the flow.
        opened: what its opening gave.
        source, target: for the driver's questions.
        desk: what the run gives.
        note: takes events for the operator.

    Attributes:
        superseded: who has the flow now, or "".
        begins_anew: whether what may be brought home has changed, so that the flow has to be opened again.
    """

    def __init__(
        self, config: FlowConfig, opened: Opened, source: Cluster, target: Cluster, desk: Desk, note: Note
    ) -> None:
        self._config = config
        self._opened = opened
        self._source = source
        self._target = target
        self._desk = desk
        self._note = note
        self._resting = Resting()
        self._done: set[TopicPartition] = set()
        self._discovery = Discovery(config, opened, source, target, note, once=desk.once)
        self._planning = Planning(config, opened, source, target, self._discovery.homecoming, once=desk.once)
        self._changed: set[TopicPartition] = set()
        self._heard: frozenset[MoveOrder] = frozenset()
        self._relayed = False
        self._telling = Telling(note, opened.store.state.events)
        self._loose: list[PartitionPlan] = []
        self._packing = False
        self._rates = Rates()
        self._rate = (0.0, 0.0)
        now = time.monotonic()
        self._recovery = Recovery(config.rpo_limit_ms, opened.store.state)
        self._looked = self._lived = 0.0
        self._restoring = Restoring(opened)
        self._began = self._refreshed = self._compared = now
        self._began_ms = now_ms()
        self.superseded = ""
        self.begins_anew = False
        self._packed = Packed(at=now)
        self._lanes = Lanes(
            config,
            opened,
            run=desk.run,
            once=desk.once,
            pool=desk.pool,
            run_shift=desk.run_shift,
            opening=desk.opening,
            control_end=self._control_end,
            orders=lambda: self._ordering.orders,
        )
        self._ordering = Ordering(config.max_bytes_per_s, self._lanes.order, moves=not desk.once)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do: for a copy for once, or because another run has the flow."""
        done = self._desk.once and not len(self._lanes) and not self._loose and not self._again_for_once()
        return done or bool(self.superseded)

    def _again_for_once(self) -> list[TopicPartition]:
        """The partitions that a copy for once tries again: what they lack is a lane, not a remedy."""
        resting = self._resting.errors()
        return [p for p in resting if self._resting.settled(p) is None and self._resting.failures(p) < ONCE_TRIES]

    def errors(self) -> dict[str, str]:
        """What is not copied, topics and partitions, and why."""
        return self._discovery.problems | {str(place): error for place, error in self._resting.standing().items()}

    def begin(self) -> None:
        """Finds the topics and starts the first lanes.

        Raises:
            SparkmirrorError: a cluster cannot be asked; or, as `superseded` says then, another run has the flow.
        """
        try:
            self._opened.store.prove()  # also while the source is away for days, so that the id of the driver lives
            plans = self._plan(self._discovery.find())
            self._part_with_absent()
            self._judge_recovery()
            self._live("running")
            self._pack(plans)
        finally:
            self._notice_loss()

    def _part_with_absent(self) -> None:
        """Tells of partitions that were deleted while the flow did not run; they stand still no longer."""
        state, absent = self._opened.store.state, self._discovery.departed()
        for partition, event in absent.items():
            if event_key(partition, event.kind) not in state.events:
                self._telling.tell(partition, [event])
        self._opened.store.write(departed(state, absent))

    def tick(self) -> None:
        """One look at everything; cheap when nothing happened. A cluster that cannot be asked now is asked later."""
        now = time.monotonic()
        for ended in self._lanes.ended():
            self._settle(ended, now)
        looks = now - self._looked >= LOOK_SECONDS
        self._attempt(lambda: self._look_after(now))
        self._notice_loss()
        if looks:
            self._judge_recovery()

    def _notice_loss(self) -> None:
        """A refused write tells of another run before its announcement has been read."""
        if self._opened.store.lost and not self.superseded:
            self.superseded = f"another run has taken the flow over: {self._opened.store.lost}"

    def _judge_recovery(self) -> None:
        """Also while a cluster cannot be asked: that is when a recovery point grows old."""
        progress, signs = self._opened.store.state.progress, self._opened.signs
        event = self._recovery.look(self._lanes, signs.point, self._discovery.pairs, progress, now_ms())
        if event is not None:
            self._note(event.text)  # at once, while the record has to wait for a target that is away
            self._telling.tell(FLOW, [event], event.text)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except SparkmirrorError as failure:
            self._note(str(failure))

    def end(self, seconds: float) -> None:
        """Drains every lane, and puts the clean end on record if all handed over; `superseded` may say why not."""
        if self.superseded:
            return
        try:
            self._end(seconds)
        except FencedError:
            self._notice_loss()

    def _end(self, seconds: float) -> None:
        clean = self._drain(seconds) and self._resting.all_settled
        self._opened.store.follow()
        self._telling.tell(FLOW, self._restoring.end(over=clean))
        clean = clean and not self._opened.store.lacks
        self._judge_recovery()
        self._attempt(self._speak)
        self._rate = (0.0, 0.0)
        if not len(self._lanes):
            self._attempt(self._lanes.clean_all)
        if clean:
            self._opened.store.write([self._opened.stopped()])
        self._live("stopped" if clean else "failed")

    def _drain(self, seconds: float) -> bool:
        self._packing = True
        if len(self._lanes):
            self._lanes.drain()
        deadline = time.monotonic() + seconds
        clean = True
        while len(self._lanes) and time.monotonic() < deadline:
            for ended in self._lanes.ended():
                clean = clean and not ended.error
                self._settle(ended, time.monotonic())
            time.sleep(0.02)
        return clean and not len(self._lanes)

    def view(self, state: str, events: tuple[str, ...]) -> FlowView:
        """What the flow shows of itself."""
        progress, standing = self._opened.store.state.progress, self._resting.standing()
        mine = filter(self._opened.is_mine, progress.values())
        return flow_view(
            str(self._config.name),
            state,
            [p for p in mine if p.partition in self._discovery.pairs],
            rate=self._rate,
            rpo_ms=self._recovery.age_ms(now_ms()),
            lanes=len(self._lanes),
            partitions=len(self._discovery.pairs),
            unbegun=any(partition not in progress for partition in standing),
            events=tuple(dict.fromkeys((*events, *(stands(p, e) for p, e in standing.items())))),
        )

    def _look_after(self, now: float) -> None:
        """What is due: progress, successors, retries, new topics, packing anew, the sign of life."""
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._opened.store.follow()
            self._take_progress(now)
            self._listen(now)
            if self.superseded:
                return
            self._tell_of_others()
            self._attempt(self._follow_registry)
            self._tell_of_quotas(now)
            self._attempt(lambda: self._telling.tell(FLOW, self._restoring.go_on(now)))
            self._attempt(self._discovery.condense_offset_map)
            self._follow_orders()
            self._watch_homecoming()
        self._attempt(lambda: self._start_what_is_due(now))
        if now - self._lived >= LIFE_SECONDS:
            self._lived = now
            self._live("running")  # also while the source is away

    def _tell_of_others(self) -> None:
        """What others have written to the flow's own topics."""
        store, signs = self._opened.store, self._opened.signs
        self._telling.tell(FLOW, of_others(store.state, store.place, signs.foreign))
        if store.torn:
            text = (
                f"{store.torn}; the flow goes on by what it has read, and puts what it had read of the offset map "
                "there again. Where lanes had written more, source offsets are not called exact: sparkmirror "
                "rehearse compares where groups stand"
            )
            self._telling.tell(FLOW, [Event(kind=Kind.NOTE, text=text)])

    def _follow_registry(self) -> None:
        text = self._opened.writers.follow_registry()
        if text:
            log.warning("%s", text, extra={"flow": str(self._config.name)})
            self._telling.tell(FLOW, [Event(kind=Kind.NOTE, text=text)])

    def _tell_of_quotas(self, now: float) -> None:
        """Puts on record that brokers hold the driver back; the log has it by then (`Cluster.notice`)."""
        for throttling in (self._source.throttling, self._target.throttling):
            for held in throttling.long(now):
                text = throttling.text(held)
                self._telling.tell(FLOW, [Event(kind=Kind.THROTTLED, text=text)], text)

    def _start_what_is_due(self, now: float) -> None:
        """Successors, retries, new topics, packing anew; for some of these the source has to answer."""
        if not self._packing:
            self._lanes.succeed()
            self._retry(now)
            self._refresh(now)
            self._maybe_pack_anew(now)
        elif not len(self._lanes):
            self._pack(self._loose)

    def _watch_homecoming(self) -> None:
        if self._desk.once:
            return
        stale, more = self._discovery.watch()
        self.begins_anew = self.begins_anew or stale
        if more and self._discovery.interval_s is None:
            self.begins_anew = True
        elif more:
            self._refreshed = -math.inf

    def _follow_orders(self) -> None:
        """Tells the lanes what an operator orders; partitions that rest go on elsewhere as soon as they go on."""
        state = self._opened.store.state
        facts = self._opened.facts
        self._ordering.follow(state, self._lane_rates(), facts.follow(self._lanes.plans), facts.guarded_ms)
        self._changed.update(each.partition for each in state.moves.values() if each.partition in self._resting)
        orders = frozenset(state.moves.values())
        self._resting.wake([each.partition for each in orders - self._heard], time.monotonic())
        self._heard = orders  # an order that ends no stop stays on record, and is no reason to try each second

    def _show_ownership(self) -> None:
        """Says once more that this run has the flow, if it has: the control topic does not end with its word.

        Raises:
            FencedError: it has not.
            SparkmirrorError: the target does not say, or does not take it.
        """
        opened = self._opened
        opened.store.prove_by_a_write()
        opened.signs.announce_again(opened.generation, opened.store.owner)

    def _listen(self, now: float) -> None:
        """Hears who is silent and who has the flow, and shows that this run has it."""
        signs = self._opened.signs
        signs.follow()
        if signs.follower:
            self.superseded = f"another run, {signs.follower}, has taken the flow over: only one may copy it"
            return
        if signs.doubted:
            self._show_ownership()
        for ended in self._lanes.silent(signs.silent()):
            self._lose(ended, now)
        if now - self._began > BURY_SECONDS:
            signs.bury()
        try:
            self._planning.keep_alive()
        except FencedError as failure:
            self.superseded = f"another run has taken the flow over: {failure}"

    def _take_progress(self, now: float) -> None:
        progress = self._opened.store.state.progress
        mine = [p for p in progress.values() if self._opened.is_mine(p)]
        self._rate = self._rates.take(now, sum(p.records for p in mine), sum(p.bytes for p in mine))
        running = {lane.current.plan.shift: lane for lane in self._lanes}
        for p in mine:
            lane = running.get(p.lane)
            if p.released and lane is not None and p.partition in lane.partitions and not self._desk.once:
                self._lanes.give_away(p.partition)
                self._rest(p.partition, p.error, now, kind_of_stop(p.events, p.error), settled=settled_in(p))
            elif not p.error and lane is not None and p.partition in lane.partitions:
                self._telling.flows(p.partition, p.position, p.time_ms)
            self._telling.tell(p.partition, p.events, p.error)
        self._speak()

    def _speak(self) -> None:
        """Tells what is new, and puts it on record; what has been there for a week goes."""
        store, spoken = self._opened.store, self._telling.speak()
        store.write(spoken, tombstones=outlived(store.state.events))
        self._telling.recorded(spoken)

    def _settle(self, ended: Ended, now: float) -> None:
        """Takes back what a shift handed back; what it could not hand back rests."""
        lane = ended.lane
        plans = {plan.source: plan for plan in ended.shift.plan.partitions}
        if ended.error:
            self._lose(ended, now)
            return
        onward: dict[TopicPartition, PartitionPlan] = {}
        for receipt in ended.receipts:
            # Its last progress may not have been read.
            self._telling.tell(receipt.source, receipt.events, receipt.error)
            if receipt.source not in lane.partitions:
                continue  # released, and given away since
            following = onward_from(plans[receipt.source], receipt, lane.left)
            if following is not None:
                onward[receipt.source] = following
            else:
                lane.partitions.discard(receipt.source)
                if receipt.outcome is Outcome.DONE:
                    self._done.add(receipt.source)
                else:
                    error = receipt.error or "its shift never started"
                    kind = kind_of_stop(receipt.events, receipt.error)
                    self._rest(receipt.source, error, now, kind, settled=settled_by(receipt))
        self._opened.signs.forget(ended.shift.plan.shift)
        self._attempt(lambda: self._lanes.clean(ended.shift))
        lane.left = onward
        if lane.current is not ended.shift:
            return
        if onward and not self._packing:
            self._go_on(lane, list(onward.values()), now)
        else:
            self._loose.extend(onward.values())
            self._lanes.remove(lane)

    def _go_on(self, lane: LaneOfShifts, plans: Sequence[PartitionPlan], now: float) -> None:
        try:
            self._lanes.go_on(lane, plans)
        except SparkmirrorError as failure:
            self._lanes.remove(lane)
            for plan in plans:
                self._rest(plan.source, str(failure), now, settled=settled_at(plan))

    def _start(self, plans: Sequence[PartitionPlan], *, extra: bool = False) -> None:
        try:
            self._lanes.start(plans, extra=extra)
        except SparkmirrorError as failure:
            for plan in plans:
                self._rest(plan.source, str(failure), time.monotonic(), settled=settled_at(plan))
        else:
            self._planning.resuming.hand_out([plan.source for plan in plans])

    def _lose(self, ended: Ended, now: float) -> None:
        """A lane died without a word, or gives none: all that may still live of it ends, its partitions begin again."""
        lane = ended.lane
        self._note(f"{ended.shift.plan.shift} was lost: {ended.error}")
        for shift in self._lanes.lose(ended):
            self._desk.cancel_shift(shift.plan.shift)
            self._opened.signs.give_up(shift.plan.shift)
        self._attempt(self._lanes.speak)
        self._planning.resuming.lose(lane.partitions)
        self._recovery.lose(lane)
        for partition in sorted(lane.partitions):
            self._rest(partition, f"its lane was lost: {ended.error}", now)
        lane.partitions.clear()

    def _rest(
        self,
        partition: TopicPartition,
        error: str,
        now: float,
        kind: Kind = Kind.STOPPED,
        *,
        settled: Resumed | None = None,
        at_least: float = 0.0,
        nearer: bool = False,
    ) -> None:
        if kind in ANEW:
            self._changed.add(partition)
        self._relayed |= kind is Kind.RELAYED
        changed = kind is Kind.TARGET_CHANGED
        if kind is Kind.RELAYED or (changed and self._desk.once):
            settled = None  # so that a copy for once goes on too
        if self._resting.rest(
            partition, error, now, settled=settled, at_least=at_least, changed=changed, nearer=nearer
        ):
            return  # told as an event
        self._note(stands(partition, error))
        progress = self._opened.store.state.progress.get(partition)
        self._telling.stands(partition, progress.position if progress is not None else NO_OFFSET)

    def _retry(self, now: float) -> None:
        """Takes partitions up again whose pause is over: from where they settled, or by taking them over."""
        due = list(self._resting.take_due(now, self._again_for_once() if self._desk.once else None))
        if not due:
            return
        try:
            self._lanes.speak()
            if not self._desk.once:
                admin.cluster_id(self._source, PROBE_MS)
            changed = self._changed.intersection(due)  # these go on elsewhere, so under another epoch
            due = self._look_again(due, now)
            settled = {p: s for p in due if p not in changed and (s := self._resting.settled(p)) is not None}
            plans = self._plan([(p, self._discovery.pairs[p]) for p in due], settled)
        except SparkmirrorError as failure:
            for partition in due:
                self._resting.rest(partition, str(failure), now, settled=self._resting.settled(partition))
            raise
        if plans:
            self._start_beside(plans)

    def _look_again(self, due: Sequence[TopicPartition], now: float) -> list[TopicPartition]:
        """Looks at the topics anew where one of ``due`` was changed; gives those that are still there.

        A partition that was deleted leaves the flow; should it come back, it is found like any new one.
        """
        if self._changed.intersection(due):
            self._discovery.find()
            if self._relayed:
                self._opened.declare(self._config, self._source)
                self._relayed = False
            self._changed.difference_update(due)
        absent = self._discovery.absent(due)
        self._opened.store.write(departed(self._opened.store.state, absent))
        for partition, event in absent.items():
            self._telling.tell(partition, [event])
            if event.kind not in DEPARTED:
                self._rest(partition, event.text, now, event.kind)
        return [p for p in due if p in self._discovery.pairs]

    def _refresh(self, now: float) -> None:
        """Picks up new topics and partitions; they start as a lane of their own."""
        interval = self._discovery.interval_s
        if interval is None or self._desk.once or now - self._refreshed < interval:
            return
        self._refreshed = now
        admin.cluster_id(self._source, PROBE_MS)
        known = {partition for lane in self._lanes for partition in lane.partitions} | set(self._resting.errors())
        new = [(here, there) for here, there in self._discovery.find() if here not in known]
        self._attempt(self._discovery.bound_offset_map)
        if new:
            log.info("%d new partitions", len(new), extra={"flow": str(self._config.name)})
            plans = self._plan(new)
            if plans:
                self._start_beside(plans)

    def _plan(self, pairs: Pairs, settled: Mapping[TopicPartition, Resumed] | None = None) -> list[PartitionPlan]:
        """Decides where partitions begin; those that cannot begin now rest."""
        planned = self._planning.plan(pairs, settled or {}, self._recovery.floors)
        for partition, (event, seconds) in planned.waiting.items():
            self._telling.tell(partition, [event], event.text)
            where = None if partition in planned.to_take_over else (settled or {}).get(partition)
            nearer, now = partition in planned.nearer, time.monotonic()
            self._rest(partition, event.text, now, event.kind, settled=where, at_least=seconds, nearer=nearer)
        for partition, event in planned.events:
            self._telling.tell(partition, [event])
        self._tell_what_was_left({here for here, _ in pairs})
        if any(event.kind is Kind.MOVED for _, event in planned.events):
            self._follow_orders()  # a lane that starts now shall not be told to give them back
        return list(planned.plans)

    def _tell_what_was_left(self, partitions: Collection[TopicPartition]) -> None:
        """Tells what a driver or a lane had found that died before it was told, or a plan that came to nothing."""
        state = self._opened.store.state
        progress = (state.progress[here] for here in partitions if here in state.progress)
        for happened in (*unrecorded(progress, state.events), *state.events.values()):
            if happened.partition in partitions:
                self._telling.tell(happened.partition, [happened.event])

    def _pack(self, plans: Sequence[PartitionPlan]) -> None:
        """Packs partitions into lanes by their rates, and starts the lanes."""
        self._packing, self._loose = False, []
        by_source = {plan.source: plan for plan in plans}
        self._attempt(lambda: by_source.update(self._planning.change_ids(by_source)))
        lanes = lane_count(self._config.tasks_max, self._desk.room().lanes, len(by_source))
        self._packed = Packed(at=time.monotonic(), lanes=lanes, partitions=len(by_source))
        self._ordering.expect(self._opened.store.state, max(1, lanes), self._opened.facts.guarded_ms)
        for members in pack(self._weights(by_source), max(1, lanes)):
            self._start([by_source[p] for p in members])

    def _start_beside(self, plans: Sequence[PartitionPlan]) -> None:
        """Starts extra lanes for partitions that come beside the others: as many as there is room for, at least one."""
        by_source = {plan.source: plan for plan in plans}
        for members in pack(self._weights(by_source), max(1, self._desk.room().lanes - len(self._lanes))):
            self._start([by_source[p] for p in members], extra=True)

    def _lane_rates(self) -> dict[str, float]:
        """Bytes per second that each lane copies now."""
        return {lane.name: sum(self._weights(lane.partitions).values()) for lane in self._lanes}

    def _weights(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """Bytes per second where they were seen, else 0: `pack` spreads those evenly."""
        progress = self._opened.store.state.progress
        return {p: progress[p].rate[1] if p in progress else 0.0 for p in partitions}

    def _maybe_pack_anew(self, now: float) -> None:
        """Packs all lanes anew when some came beside the plan long ago, or when Spark has other room than then."""
        if self._desk.once or now - self._compared < LOOK_SECONDS:
            return
        self._compared = now
        compared = self._packed.compare(
            self._desk.room(),
            self._config.tasks_max,
            lanes=len(self._lanes),
            extras=self._lanes.extras,
            patience=self._config.shift_max_ms / 1000,
            now=now,
        )
        if must_pack_anew(compared) or self._opened.writers.to_rotate:
            log.info("packing the lanes anew", extra={"flow": str(self._config.name)})
            self._packing = True
            self._lanes.drain_each()

    def _control_end(self) -> int:
        topic = TopicPartition(control_topic(self._config.name), 0)
        found = admin.list_offsets(self._target, [topic], OffsetSpec.LATEST, timeout_ms=self._config.admin_timeout_ms)
        return found[topic]

    def _live(self, state: str) -> None:
        life = Life(
            generation=self._opened.generation,
            time_ms=now_ms(),
            state=state,
            lanes=len(self._lanes),
            events=tuple(f"{place}: {error}" for place, error in self.errors().items())[:20],
            began_ms=self._began_ms,
        )
        self._opened.store.write([self._recovery.mark(life)])

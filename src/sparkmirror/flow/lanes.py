"""The lanes of one flow, each a row of shifts: starting them, succeeding them, collecting what they hand back.

Invariants: a lane has at most one shift that copies and one that waits for its handover; a successor is never started
while the flow drains; a lane is lost as a whole, since nobody can tell whether a dead shift had handed over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.copy.control import drain_key, lost_key, orders_key, spent_keys
from sparkmirror.copy.orders import Orders
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.duties.topics import is_homeward
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.shift import LaneOfShifts, Receipts, RunShift, Shift, after, submit
from sparkmirror.model import TopicPartition
from sparkmirror.naming import control_topic, internal_topic

LEAD_SECONDS = 2.0
"""A successor is started this long before its predecessor's time is up; that is what Spark needs to start a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A shift that ended: with receipts, or with the error that killed its job."""

    lane: LaneOfShifts
    shift: Shift
    receipts: Receipts = ()
    error: str = ""


class Lanes:
    """All lanes of a flow.

    Args:
        config: of the flow.
        opened: ids, topics and generation.
        run: the run's name.
        once: whether shifts end when everything is copied.
        pool: threads for shifts.
        run_shift: runs one shift and waits for it.
        opening: how often the run has opened the flow before.
        control_end: asks for the control topic's end offset.
        orders: what holds for the lanes now.
    """

    def __init__(
        self,
        config: FlowConfig,
        opened: Opened,
        *,
        run: str,
        once: bool,
        pool: ThreadPoolExecutor,
        run_shift: RunShift,
        opening: int,
        control_end: Callable[[], int],
        orders: Callable[[], Orders],
    ) -> None:
        self._config = config
        self._opened = opened
        self._run = run
        self._once = once
        self._pool = pool
        self._run_shift = run_shift
        self._control_end = control_end
        self._orders = orders
        self._lanes: list[LaneOfShifts] = []
        self._named = 0
        self._prefix = f"lane-{opening}-" if opening else "lane-"
        self._handovers: dict[str, int] = {}
        self._told: set[str] = set()
        self._untold: set[str] = set()

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[LaneOfShifts]:
        return iter(tuple(self._lanes))

    @property
    def extras(self) -> int:
        """How many lanes are to be packed in with the rest."""
        return sum(lane.extra for lane in self._lanes)

    def start(self, plans: Sequence[PartitionPlan], *, extra: bool = False) -> None:
        """Starts a lane of its own for ``plans``."""
        name = f"{self._prefix}{self._named}"
        self._named += 1
        shift = self._submit(f"{name}.0", plans)
        self._lanes.append(LaneOfShifts(name=name, current=shift, partitions={p.source for p in plans}, extra=extra))

    def go_on(self, lane: LaneOfShifts, plans: Sequence[PartitionPlan]) -> None:
        """Starts the next shift of a lane whose shift ended without a successor."""
        lane.current = self._submit(f"{lane.name}.{lane.count}", plans)
        lane.count += 1

    @property
    def plans(self) -> Iterator[PartitionPlan]:
        """By what the partitions are copied now."""
        for lane in self._lanes:
            yield from (plan for plan in lane.current.plan.partitions if plan.source in lane.partitions)

    def remove(self, lane: LaneOfShifts) -> None:
        """Ends a lane; its shifts must have ended."""
        self._lanes.remove(lane)

    def give_away(self, partition: TopicPartition) -> None:
        """Takes a stopped partition from the lane that had it."""
        for lane in self._lanes:
            lane.partitions.discard(partition)

    def ended(self) -> Iterable[Ended]:
        """Collects the shifts that have ended since the last call; a lane's successor, if any, becomes its current."""
        for lane in tuple(self._lanes):
            # One that has begun counts, even where Spark tells of its end first: its receipts are the newer ones.
            if lane.successor is not None and lane.successor.gave_up and not lane.current.job.done():
                lane.successor = None  # another one will be started
            if lane.current.job.done():
                shift = lane.current
                if lane.successor is not None:
                    lane.current, lane.successor = lane.successor, None
                    lane.current.began = time.monotonic()
                failure = shift.job.exception()
                if failure is not None:
                    yield Ended(lane=lane, shift=shift, error=_told(failure))
                else:
                    yield Ended(lane=lane, shift=shift, receipts=shift.job.result())

    def succeed(self) -> None:
        """Starts successors for the shifts whose time is nearly up."""
        seconds = self._config.shift_max_ms / 1000
        for lane in self._lanes:
            due = time.monotonic() - lane.current.began > max(seconds - LEAD_SECONDS, seconds / 2)
            if due and lane.successor is None and lane.partitions and not self._once:
                before = lane.current.plan
                plans = [after(p, before.shift) for p in before.partitions if p.source in lane.partitions]
                lane.successor = self._submit(f"{lane.name}.{lane.count}", plans, lane.current.control_end)
                lane.count += 1

    def drain(self) -> None:
        """Tells every shift of the run to end."""
        self._tell([drain_key(self._run)])

    def drain_each(self) -> None:
        """Tells the shifts that run now to end, so that their partitions can be packed anew."""
        shifts = [shift for lane in self._lanes for shift in (lane.current, lane.successor) if shift is not None]
        self._tell([drain_key(self._run, shift.plan.shift) for shift in shifts])

    def silent(self, shifts: frozenset[str]) -> Iterable[Ended]:
        """Collects the lanes with a shift that gives no sign of life any more; see `lose`."""
        for lane in tuple(self._lanes):
            if any(shift.plan.shift in shifts for shift in lane.shifts):
                yield Ended(lane=lane, shift=lane.current, error="it gives no sign of life")

    def lose(self, ended: Ended) -> tuple[Shift, ...]:
        """Gives a lane up, with every shift that may still live: they are told by `speak`.

        Returns:
            these shifts; their jobs are to be cancelled.
        """
        shifts = tuple({shift.plan.shift: shift for shift in (ended.shift, *ended.lane.shifts)}.values())
        self._untold.update(lost_key(self._run, shift.plan.shift) for shift in shifts)
        if ended.lane in self._lanes:
            self._lanes.remove(ended.lane)
        return shifts

    def order(self, orders: Orders) -> None:
        """Tells every lane of the run what holds from now on.

        Raises:
            SparkmirrorError: the target cannot be written to.
        """
        key = orders_key(self._run)
        self._told.add(key)
        self._opened.control.append([(key, orders.text())])

    def speak(self) -> None:
        """Says which shifts are lost: they may send nothing more. Before their partitions are taken over.

        Raises:
            SparkmirrorError: the target cannot be written to.
        """
        if self._untold:
            self._tell(sorted(self._untold))
            self._untold.clear()

    def _tell(self, keys: list[str]) -> None:
        self._told.update(keys)
        self._opened.control.append([(key, "{}") for key in keys])

    def clean(self, shift: Shift) -> None:
        """Deletes the control records that a shift has used up."""
        self._forget_handovers(shift.plan.predecessors)

    def clean_all(self) -> None:
        """Deletes every control record of the run; its shifts must have ended."""
        self._forget_handovers(tuple(self._handovers))
        self._opened.control.append([(key, None) for key in sorted(self._told)])

    def _forget_handovers(self, shifts: Iterable[str]) -> None:
        keys = [key for shift in shifts for key in spent_keys(self._run, shift, self._handovers.pop(shift, 0))]
        self._opened.control.append([(key, None) for key in keys])

    def _submit(self, shift: str, plans: Sequence[PartitionPlan], control_offset: int | None = None) -> Shift:
        control_end = self._control_end()
        self._handovers[shift] = len(plans)
        plan = ShiftPlan(
            flow=str(self._config.name),
            run=self._run,
            shift=shift,
            generation=self._opened.generation,
            driver=self._opened.driver,
            partitions=tuple(
                replace(
                    self._opened.facts.newest(each),
                    carried=self._opened.writers.carried(each.writer),
                    homeward=is_homeward(self._config, each.source.topic),
                )
                for each in plans
            ),
            source_id=self._opened.source_id,
            target_id=self._opened.target_id,
            loops_by_writer=self._opened.tells_writers,
            internal_topic=internal_topic(self._config.name),
            control_topic=control_topic(self._config.name),
            control_offset=control_end if control_offset is None else control_offset,
            max_ms=self._config.shift_max_ms,
            guarded_ms=self._opened.facts.guarded_ms,
            once=self._once,
            orders=self._orders(),
        )
        self._opened.signs.expect(shift)
        return submit(self._pool, self._run_shift, plan, control_end)


def _told(failure: BaseException) -> str:
    if isinstance(failure, SparkmirrorError):
        return str(failure)
    return f"{type(failure).__name__}: {failure}".split("\n")[0]

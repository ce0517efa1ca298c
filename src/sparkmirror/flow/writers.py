"""A flow's producer ids: asked of the coordinator, registered before the first batch, kept alive, fenced, changed.

Invariants:
    - Only this class asks for epochs, one question per group at a time: a fence and a renewal side by side would each
      take the other for a second driver.
    - Nobody gets an epoch that is on record already: a coordinator that has lost the end of its log is asked again.
    - A producer id is on record in the registry of writers before a batch is written with it, and so is what an epoch
      may carry of other mirrors' batches, see ``copy.registrations``. One that took the place
      of an id that cannot be fenced any more is registered only when the caller says so (`confirm`): a driver that dies
      while it waits for the old lanes' end finds the same verdict at its next start.

    - What the registry loses of the flow while it runs is written there again, see `Writers.follow_registry`.

Decisions: ``offsets.writers``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from sparkmirror.copy.registrations import Registration, foreign_among, gone, of_flow, transactional_id
from sparkmirror.errors import BrokerError, FencedError, SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import INVALID_PRODUCER_EPOCH, epochs_of, fence, fence_and_renew
from sparkmirror.kafka.journal import Cursor, Entry, Journal
from sparkmirror.kafka.producer_ids import acquire_writer, renew_writer
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import Mark
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.writers import (
    Unfenceable,
    WayToFence,
    can_be_kept_alive,
    check,
    due,
    forgotten,
    must_rotate,
    newest_epochs,
    was_given_before,
    way_to_fence,
)

log = logging.getLogger(__name__)

GROUPS = 8
"""Partitions of one group share a producer id; one without a leader holds up the fencing of its group only."""

FOLLOW_MS, FOLLOW_AGAIN_SECONDS = 3_000, 10.0
"""How long the registry may take to be read on, and for how long it is left alone when it has not answered: takeovers,
orders and the sign of life wait meanwhile. They need nothing of it, and its partition may be without a leader for days.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Partitions that are taken over: the writer to go on with, and what the fence left where."""

    writer: Writer
    marks: Results[TopicPartition, Mark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """A group that changed its producer id: the newest writer before, and the one from now on."""

    old: Writer
    new: Writer


def boot_seconds() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps where the system has one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Writers:
    """The producer ids of one flow.

    Args:
        target: the cluster that hands them out.
        flow: the flow's name.
        target_id: the target's cluster id.
        origin: ids of the clusters that the flow's batches come from.
        headers: whether every record is written with a provenance header.
        timeout_ms: of each question to the coordinator.
        on_record: writers that are on record elsewhere than in the registry; no epoch up to theirs is used again.
        clock: seconds, for `due`.
    """

    def __init__(
        self,
        target: Cluster,
        *,
        flow: str,
        target_id: str,
        origin: tuple[str, ...],
        headers: bool = False,
        timeout_ms: int,
        on_record: Iterable[Writer] = (),
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._target = target
        self._flow = flow
        self._target_id = target_id
        self._origin = origin
        self._carried: frozenset[str] = frozenset()
        self._headers = headers
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._locks = tuple(Lock() for _ in range(GROUPS))
        self._newest: dict[int, Writer] = {}
        self._epochs = newest_epochs(on_record)
        self._forgot: set[int] = set()
        self._renewed: dict[int, float] = {}
        self._on_record: dict[int, int] = {}
        self._unfenceable: dict[int, Unfenceable] = {}
        self._ids: dict[int, None] = {}
        self._registered: dict[int, Registration] = {}
        self._declared: dict[int, list[tuple[int, frozenset[str]]]] = {}
        self._registry = Journal(target, WRITERS_TOPIC)
        self._cursor = Cursor()
        self._entries: dict[str, Entry] = {}
        self._whole = False
        self._follows_at = 0.0

    @property
    def unfenceable(self) -> Mapping[int, Unfenceable]:
        """The groups that may not be written to before `confirm`, with the ids that nothing shuts out any more."""
        return dict(self._unfenceable)

    @property
    def forgot(self) -> frozenset[int]:
        """The groups of which the coordinator has forgotten epochs: its log has lost its end."""
        return frozenset(self._forgot)

    @property
    def to_rotate(self) -> tuple[int, ...]:
        """The groups that need another producer id: drain their partitions, then `rotate`."""
        return tuple(sorted(group for group, newest in self._newest.items() if must_rotate(newest)))

    @property
    def ids(self) -> tuple[int, ...]:
        """Every producer id that the flow was given, as far as the registry tells, in the order of registration."""
        return tuple(self._ids)

    @property
    def newest(self) -> tuple[Writer, ...]:
        """The newest writer of each group that has been asked for."""
        return tuple(self._newest[group] for group in sorted(self._newest))

    def carried(self, writer: Writer) -> tuple[str, ...]:
        """The clusters whose records may be carried on with a writer: what was on record before its epoch began."""
        declared = [carried for since, carried in self._declared.get(writer.producer_id, ()) if since <= writer.epoch]
        return tuple(sorted(declared[-1])) if declared else ()

    def declare(self, carried: frozenset[str]) -> None:
        """Puts on record that records of these clusters too will be carried on, from each group's next epoch on.

        Raises:
            BrokerError: the registry cannot be written.
            LinkError: the target does not answer.
        """
        if carried <= self._carried:
            return
        before, self._carried = self._carried, self._carried | carried
        try:
            for group in range(GROUPS):
                with self._locks[group]:
                    if group not in self._unfenceable:
                        self._register((group,), since=self._newest[group].epoch + 1)
        except SparkmirrorError:
            self._carried = before  # declared only when all groups are
            raise

    def due(self, now: float | None = None) -> tuple[int, ...]:
        """The groups to be kept alive, now or at another moment of the clock."""
        return due(self._renewed, self._clock() if now is None else now)

    def way_to_fence(self, group: int) -> WayToFence:
        """How `take_over` would fence; by SPEND all partitions of the group that are in use have to be in that call."""
        return way_to_fence(self._newest[group])

    def transactional_id(self, group: int) -> str:
        """The name by which the coordinator knows the producer id of a group."""
        return transactional_id(self._flow, self._origin, group)

    def acquire_all(self) -> tuple[Writer, ...]:
        """Gets every group's producer id with a new epoch, and registers those that may be written with.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: the target does not answer.
        """
        self._read_registry()
        with ThreadPoolExecutor(GROUPS) as pool:
            writers = tuple(pool.map(self._acquire, range(GROUPS)))
        self._settle(range(GROUPS))
        return writers

    def renew(self, group: int) -> Writer | Unfenceable:
        """Raises the epoch of one group, whoever had it.

        Returns:
            the writer; or that the id on record is not known to the coordinator any more: nothing is to be written with
            the one in its place before a takeover has waited for the lanes of the old one, see `confirm`.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: the target does not answer.
        """
        with self._locks[group]:
            writer = self._acquire(group)
            self._settle((group,))
            return self._unfenceable.get(group, writer)

    def take_over(self, group: int, partitions: Sequence[TopicPartition], timeout_ms: int) -> Fenced | Unfenceable:
        """Raises the epoch of one group and shuts out whoever writes to the partitions with an older one.

        Returns:
            what was fenced; or that the id on record is not known to the coordinator any more.

        Raises:
            FencedError: another driver raised the epoch in between.
            BrokerError: the coordinator refuses.
            LinkError: the target does not answer.
        """
        with self._locks[group]:
            if way_to_fence(self._newest[group]) is WayToFence.SPEND:
                return self._spend(group, partitions, timeout_ms)
            writer = self._acquire(group)
            self._settle((group,))
            if group in self._unfenceable:
                return self._unfenceable[group]
            marks = fence(self._target, self.transactional_id(group), writer, partitions, timeout_ms)
            if self._learns(writer, marks):
                writer = self._acquire(group)
                marks = fence(self._target, self.transactional_id(group), writer, partitions, timeout_ms)
            self._renewed[group] = self._clock()
            return Fenced(writer=writer, marks=marks)

    def keep_alive(self, groups: Iterable[int] | None = None) -> None:
        """Shows the coordinator that the transactional ids are in use. Lanes go on with the epochs that they have.

        Args:
            groups: which; all unless given.

        Raises:
            FencedError: another driver has the flow.
            BrokerError: the coordinator refuses; the group stays due.
            LinkError: the target does not answer; the group stays due.
        """
        chosen = tuple(range(GROUPS) if groups is None else groups)
        if not chosen:
            return
        with ThreadPoolExecutor(len(chosen)) as pool:
            failures = [failure for failure in pool.map(self._keep_alive, chosen) if failure is not None]
        self._settle(chosen)
        for failure in sorted(failures, key=lambda failure: not isinstance(failure, FencedError)):
            raise failure

    def rotate(self, group: int) -> Rotation:
        """Gives a group another producer id, by spending what epochs the old one has left. Registers it.

        Its partitions have to be drained: nothing can shut out who writes with the old id after this.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: the target does not answer.
        """
        with self._locks[group]:
            old = self._newest[group]
            while self._newest[group].producer_id == old.producer_id:
                self._acquire(group)
            self._register((group,))
            return Rotation(old=old, new=self._newest[group])

    def confirm(self, group: int) -> None:
        """Says that the lanes of an id that cannot be fenced are dead or drained, and registers the id in its place."""
        with self._locks[group]:
            self._register((group,))

    def follow_registry(self) -> str:
        """Reads on in the registry, and writes there again what it has lost of the flow.

        Whoever reads the flow's batches under kept names takes those for an application's that nobody has registered.
        What is not read within `FOLLOW_MS` is read the next time.

        Returns:
            what is to be told, or "".

        Raises:
            BrokerError: the registry cannot be read or written.
            LinkError: the target does not answer.
        """
        now = self._clock()
        if now < self._follows_at:
            return ""
        self._follows_at = now + FOLLOW_AGAIN_SECONDS
        told = self._follow()
        self._follows_at = now  # it has answered
        return told

    def _follow(self) -> str:
        registered = tuple(self._registered.values())  # before the reading: what is on record by then has to be there
        if not self._read_on() or self._whole:
            return ""
        lost = gone(registered, self._entries.values())
        if lost:
            self._target.run(self._registry.append, [(each.key, each.value) for each in lost], FOLLOW_MS)
        self._whole = True
        if not lost:
            return ""
        return (
            f"{WRITERS_TOPIC} of cluster {self._target.alias} has lost {len(lost)} registrations of the flow, which "
            "are written again; a flow that reads this cluster under kept names, or for what comes home, and has "
            "begun a shift meanwhile may have copied records back that came from there"
        )

    def _read_on(self) -> bool:
        """Reads the registry on; whether to its end. One that has lost its end is read once more from the beginning."""
        until = self._clock() + FOLLOW_MS / 1000
        while (left := until - self._clock()) > 0:
            found = self._target.run(self._registry.follow, self._cursor, max(1, round(left * 1000)))
            if found.parted is not None:
                self._cursor, self._whole = Cursor(), False
                self._entries = {key: entry for key, entry in self._entries.items() if entry.value is None}
                continue
            for entry in found.entries:
                self._entries[entry.key], self._whole = entry, False
            before, self._cursor = self._cursor, found.cursor
            if self._cursor.offset >= found.end or self._cursor.offset == before.offset:
                return self._cursor.offset >= found.end
        return False

    def _acquire(self, group: int) -> Writer:
        """Asks for epochs until one is above all that are known: no longer than for one answer, however far that is.

        Each answer brings the coordinator nearer, so who asks again later gets there.
        """
        name = self.transactional_id(group)
        until = self._clock() + self._timeout_ms / 1000
        writer = first = acquire_writer(self._target, name, self._timeout_ms)
        while was_given_before(writer, self._epochs):
            self._forgot.add(group)
            if self._clock() >= until:
                raise SparkmirrorError(
                    f"the transaction coordinator of cluster {self._target.alias} gives epoch {writer.epoch} of "
                    f"producer id {writer.producer_id}, and {self._epochs[writer.producer_id]} is on record: "
                    "__transaction_state has lost its end, or somebody has written to the flow's internal topic; it is "
                    "asked again, and comes nearer each time"
                )
            writer = acquire_writer(self._target, name, self._timeout_ms)
        if writer != first:
            log.warning(
                "the transaction coordinator of cluster %s has given epoch %d of producer id %d a second time: "
                "__transaction_state has lost its end; epoch %d is used, which nobody has had",
                self._target.alias,
                first.epoch,
                first.producer_id,
                writer.epoch,
                extra={"flow": self._flow},
            )
        self._note(group, writer)
        return writer

    def _learns(self, writer: Writer, marks: Results[TopicPartition, Mark]) -> bool:
        """Whether leaders know epochs that the coordinator has forgotten, which nothing else has on record."""
        refused = [
            partition
            for partition, failure in marks.failed.items()
            if isinstance(failure, BrokerError) and failure.code == INVALID_PRODUCER_EPOCH
        ]
        if not refused:
            return False
        leaders = epochs_of(self._target, writer.producer_id, refused, self._timeout_ms)
        newest = forgotten(writer, leaders.values())
        if newest is not None:
            self._epochs[writer.producer_id] = max(newest, self._epochs.get(writer.producer_id, newest))
        return newest is not None

    def _keep_alive(self, group: int) -> SparkmirrorError | None:
        with self._locks[group]:
            newest = self._newest[group]
            if not can_be_kept_alive(newest):
                return None
            try:
                writer = renew_writer(self._target, self.transactional_id(group), newest, self._timeout_ms)
            except SparkmirrorError as failure:
                return failure
            self._note(group, writer)
            return None

    def _spend(self, group: int, partitions: Sequence[TopicPartition], timeout_ms: int) -> Fenced:
        newest, name = self._newest[group], self.transactional_id(group)
        marks, writer = fence_and_renew(self._target, name, newest, partitions, timeout_ms)
        self._note(group, writer)
        self._register((group,))
        return Fenced(writer=writer, marks=marks)

    def _note(self, group: int, writer: Writer) -> None:
        self._newest[group] = writer
        self._epochs[writer.producer_id] = max(writer.epoch, self._epochs.get(writer.producer_id, writer.epoch))
        self._renewed[group] = self._clock()

    def _settle(self, groups: Iterable[int]) -> None:
        """Registers the ids of these groups, but for those that took the place of one that cannot be fenced."""
        for group in groups:
            verdict = check(self._newest[group], self._on_record.get(group))
            if verdict is not None:
                self._unfenceable[group] = verdict
        self._register([group for group in groups if group not in self._unfenceable])

    def _register(self, groups: Iterable[int], since: int | None = None) -> None:
        """Registers what is not on record as it is wanted; ``since`` is the first epoch that may rely on it."""
        wanted = {group: self._wanted(group, since) for group in groups}
        new = {group: each for group, each in wanted.items() if self._registered.get(each.producer_id) != each}
        if new:
            self._target.run(self._registry.append, [(each.key, each.value) for each in new.values()], self._timeout_ms)
        for group, each in wanted.items():
            declared = self._declared.setdefault(each.producer_id, [])
            if not declared or declared[-1][1] != frozenset(each.carried):
                declared.append((self._newest[group].epoch if since is None else since, frozenset(each.carried)))
            self._registered[each.producer_id] = each
            self._on_record[group] = each.producer_id
            self._ids[each.producer_id] = None
            self._unfenceable.pop(group, None)

    def _wanted(self, group: int, since: int | None) -> Registration:
        newest = self._newest[group]
        known = self._registered.get(newest.producer_id)
        headers = None
        if self._headers:
            begun = newest.epoch if since is None else since
            headers = known.headers if known is not None and known.headers is not None else begun
        return Registration(
            producer_id=newest.producer_id,
            flow=self._flow,
            cluster=self._target_id,
            origin=self._origin,
            group=group,
            carried=tuple(sorted(self._carried.union(known.carried if known is not None else ()))),
            headers=headers,
        )

    def _read_registry(self) -> None:
        entries, _ = self._target.run(self._registry.read_all, self._timeout_ms)
        in_order = sorted(entries.values(), key=lambda entry: entry.offset)
        for line in foreign_among(in_order).lines(f"cluster {self._target.alias}, {WRITERS_TOPIC}-0"):
            log.warning("%s", line, extra={"flow": self._flow})
        self._registered = of_flow(in_order, self._flow, self._target_id, self._origin)
        own = self._registered.values()
        self._carried |= {cluster for known in own for cluster in known.carried}
        self._on_record = {known.group: known.producer_id for known in own if known.group is not None}
        self._ids = dict.fromkeys(self._registered)

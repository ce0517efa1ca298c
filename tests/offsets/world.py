"""A plain model of one partition: a source with holes, a target's log, a journal, and writers that die anywhere.

It knows nothing of how `sparkmirror.offsets` decides: a record of the source must be in the target's log once,
in order, whatever was lost on the way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

from sparkmirror.events import Kind
from sparkmirror.model import (
    NO_OFFSET,
    NO_RECORD,
    UNKNOWN,
    WENT_ON,
    Began,
    LastRecord,
    Reached,
    TopicPartition,
    Writer,
)
from sparkmirror.offsets.bounds import Starts, bound
from sparkmirror.offsets.came_after import came_after
from sparkmirror.offsets.condensing import condense
from sparkmirror.offsets.log_parts import append
from sparkmirror.offsets.records import Progress, SourceEpoch, part_of
from sparkmirror.offsets.segments import SEQUENCES, Bounded, Opening, Segments, Targets, segments_of, targets_of
from sparkmirror.offsets.source_history import UNDEFINED, EpochEnd
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.tail import Tail, TailBatch
from sparkmirror.offsets.takeover import Begin, Decision, Observed, ReadFrom, Resume, Stuck, decide, last_before

PLACE = TopicPartition("orders", 3)
FOREIGN = 4_000


class Crash(Exception):  # noqa: N818  # not an error: the model's writer dies
    """The writer dies here."""


@dataclass(slots=True)
class Entry:
    """A batch of the target's log; ``sources`` of its records, empty for others' batches and for markers.

    One that the log cleaner has removed counts as arrived, and is not seen any more.
    """

    header: TailBatch
    sources: list[int] = field(default_factory=list)
    cleaned: bool = False
    topic_id: str = ""
    births: list[int] = field(default_factory=list)


@dataclass(slots=True)
class World:
    """One partition, both clusters, and the internal topic.

    Attributes:
        kept: whether the source has a record at each offset that is to be copied.
        cut: where the log was cut off below what was acknowledged.
        leader_epoch: of the target's leader.
        reached, reached_in: how far the log is known to go, and the leader epoch in which that was acknowledged.
        chance: decides sizes and moments.
        first_sequence: of each epoch; near the end of all sequences they wrap.
        shared: whether others write the target too.
        topic_id, target_id: of the source and target topic.
        position: where the copy stands, as its writer knows.
        told: events.
        on_its_way: what dead writers have sent to the internal topic, and what is not there yet.
    """

    kept: list[bool]
    chance: Random
    first_sequence: int = 0
    shared: bool = False
    topic_id: str = ""
    target_id: str = ""
    log: list[Entry] = field(default_factory=list)
    start: int = 0
    source_start: int = 0
    state: JournalState = field(default_factory=JournalState)
    ids: list[int] = field(default_factory=lambda: [7])
    writer: Writer = field(default_factory=lambda: Writer(producer_id=7, epoch=0))
    fenced: Writer | None = None
    position: int = 0
    sequence: int = 0
    anew: bool = False
    continues_at: int = NO_OFFSET
    last: tuple[int, int, int] = (NO_OFFSET, NO_OFFSET, NO_OFFSET)
    first: tuple[int, int] = NO_RECORD.first
    behind: LastRecord = NO_RECORD
    began: Began = WENT_ON
    leader_epoch: int = 1
    reached: int = NO_OFFSET
    reached_in: int = UNKNOWN.leader_epoch
    asks: bool = False
    torn: bool = False
    cut: int = NO_OFFSET
    settled: list[Opening] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    on_its_way: list[Segments | Targets | Progress | SourceEpoch] = field(default_factory=list)
    budget: int = 0
    readings: int = 0

    @property
    def end(self) -> int:
        """The target log's end."""
        return self.log[-1].header.last_offset + 1 if self.log else 0

    @property
    def leader_epoch_left(self) -> int:
        """Of the source's batch left of the position, or -1."""
        return -1

    @property
    def generation(self) -> int:
        """Of the flow."""
        return len(self.ids)

    @property
    def batches(self) -> set[TailBatch]:
        """Those in the log that have records of the flow."""
        return {entry.header for entry in self.log if entry.sources}

    @property
    def arrived(self) -> list[int]:
        """Source offsets of the flow's records on the target, in order, those too that retention removed."""
        return [source for entry in self.log for source in entry.sources]

    # ------------------------------------------------------------------------------------------------- the writer

    def begin(self, position: int, *, anew: bool = False, behind: LastRecord = NO_RECORD) -> None:
        """A new writer epoch begins at a source offset, behind a record of an older one where that is known."""
        self.first, self.behind = NO_RECORD.first, behind
        self.began = self.state.map_of(PLACE).began(self.writer)
        self.position, self.sequence, self.continues_at = position, self.first_sequence, NO_OFFSET
        self.anew = anew
        self.last = (NO_OFFSET, NO_OFFSET, NO_OFFSET)
        self.settled = []

    def copy(self, budget: int) -> bool:
        """Copies to the source's end; False if the writer died after ``budget`` effects."""
        self.budget = budget
        try:
            self._publish()
            while self.position < len(self.kept):
                self._answer()
            self._publish()
        except Crash:
            return False
        return True

    def copy_some(self, answers: int) -> bool:
        """Copies so many answers and publishes; False if the log is torn and the lane asks first, or notices."""
        self.budget = -1
        if self.asks and self.torn:
            return False
        try:
            for _ in range(answers):
                if self.position < len(self.kept):
                    self._answer()
            self._publish()
        except Crash:
            return False
        return True

    def ask_again(self) -> None:
        """The lane asks the leader, and gives the partition back where it lacks something."""
        if self.torn:
            self.budget = -1
            self._publish(self.cut)

    def restart_cleanly(self) -> None:
        """Another run goes on where the one before ended in order: with the next epoch, and without a fence."""
        self.writer = replace(self.writer, epoch=self.writer.epoch + 1)
        behind = LastRecord(*self.last, *self.first, *self.behind.before).only_before()
        self.begin(self.position, anew=self.anew and self.last[0] == NO_OFFSET, behind=behind)

    def move(self) -> None:
        """Another lane goes on under the epoch, has sent nothing yet, and does not know which record was the last."""
        self.budget, self.last = -1, (NO_OFFSET, NO_OFFSET, NO_OFFSET)
        self._publish()

    def _spend(self) -> None:
        if self.budget == 0:
            raise Crash
        self.budget -= 1

    def _answer(self) -> None:
        """One fetch answer: segments ahead, then batches, some of which are acknowledged in between."""
        stop = min(len(self.kept), self.position + self.chance.randint(1, 12))
        sources = [offset for offset in range(self.position, stop) if self.kept[offset] and offset >= self.source_start]
        openings = []
        for number, source in enumerate(sources):
            if source != self.continues_at:
                named, at = self.behind.before_source, (self.sequence + number) % SEQUENCES
                before = named if at == 0 else NO_OFFSET  # of an older epoch only the first record of all names one
                openings.append(
                    Opening(at, source, before if self.continues_at == NO_OFFSET else self.continues_at - 1)
                )
            self.continues_at = source + 1
        for begun in self.begun_up_to(stop):
            self._put(begun)
        if openings:
            self._put(segments_of(PLACE, self.writer, openings, unguarded=False, anew=self.anew))
        unacknowledged: list[tuple[int, list[int], int]] = []
        number = 0
        while number < len(sources):
            count = min(len(sources) - number, self.chance.randint(1, 4))
            self._spend()
            base = self._append(self.sequence + number, sources[number : number + count])
            unacknowledged.append((base, sources[number : number + count], self.sequence + number))
            number += count
            while unacknowledged and self.chance.random() < 0.5:
                self._acknowledge(*unacknowledged.pop(0))
        for batch in unacknowledged:
            self._acknowledge(*batch)
        self.sequence = (self.sequence + len(sources)) % SEQUENCES
        self.position = stop
        if self.chance.random() < 0.5:
            self._publish()

    def begun_up_to(self, _stop: int) -> list[SourceEpoch]:
        """Leader epochs of the source that an answer brings for the first time."""
        return []

    def births_of(self, _sources: list[int]) -> list[int]:
        """Which records these are, where a source may have others at its offsets later."""
        return []

    def _put(self, record: Segments | Targets | Progress | SourceEpoch) -> None:
        """Puts a record on record; one that was on its way when the writer died may still arrive."""
        try:
            self._spend()
        except Crash:
            self.on_its_way.append(record)
            raise
        self.state.take(record)

    def speak_late(self) -> None:
        """What writers had sent to the internal topic when they died arrives there."""
        for record in self.on_its_way:
            self.state.take(record)
        self.on_its_way = []

    def _append(self, sequence: int, sources: list[int]) -> int:
        if self.shared and self.chance.random() < 0.3:
            self.others_write(self.chance.randint(1, 3))
        base = self.end
        last = base + len(sources) - 1
        header = TailBatch(
            base,
            last,
            *_named(self.writer),
            sequence % SEQUENCES,
            count=len(sources),
            control=False,
            newest_ms=1,
            leader_epoch=self.leader_epoch,
        )
        self.log.append(Entry(header, sources, topic_id=self.topic_id, births=self.births_of(sources)))
        return base

    def _acknowledge(self, base: int, sources: list[int], sequence: int) -> None:
        self._spend()
        if base < self.reached:
            raise Crash  # a lane gives the partition back, and nothing of the answer goes on record
        self.reached, self.reached_in = base + len(sources), self.leader_epoch
        if base != self.last[2] + 1 or self.last[2] == NO_OFFSET:
            after = self.behind.before_target if self.last[2] == NO_OFFSET else self.last[2]
            self.settled.append(Opening(sequence % SEQUENCES, base, after))
        if sequence == 0 and self.last[2] == NO_OFFSET:
            self.first = sources[0], base
        self.last = ((sequence + len(sources) - 1) % SEQUENCES, sources[-1], base + len(sources) - 1)
        self.position = sources[-1] + 1
        if self.chance.random() < 0.3:
            self._publish()

    def _publish(self, cut: int = NO_OFFSET, *, settled: bool = False) -> None:
        if self.settled:
            self._put(targets_of(PLACE, self.writer, self.settled))
            self.settled = []
        sequence, source, target = self.last
        self._put(
            Progress(
                partition=PLACE,
                writer=self.writer,
                generation=self.generation,
                position=self.position,
                next_sequence=self.sequence,
                topic_id=self.topic_id,
                target_id=self.target_id,
                settled=settled,
                leader_epoch=self.leader_epoch_left,
                sequence=sequence,
                source=source,
                target=target,
                first=self.first,
                before=self.behind.before,
                began=self.began,
                anew=self.anew,
                reached=UNKNOWN if self.reached == NO_OFFSET else Reached(self.reached_in, self.reached),
                cut=cut,
            )
        )

    # -------------------------------------------------------------------------------------------- what else happens

    def others_write(self, count: int) -> None:
        """Another producer's batch."""
        header = TailBatch(
            self.end,
            self.end + count - 1,
            FOREIGN,
            0,
            0,
            count=count,
            control=False,
            newest_ms=1,
            leader_epoch=self.leader_epoch,
        )
        self.log.append(Entry(header))

    def lose_tail(self, batches: int) -> None:
        """An unclean election: the last batches are gone, none of those that retention has removed."""
        while batches and self.log and self.log[-1].header.base_offset >= self.start:
            self.log.pop()
            batches -= 1
        self.leader_epoch += 1
        if self.end < self.reached:
            self.torn, self.cut = True, min(self.end, self.end if self.cut == NO_OFFSET else self.cut)

    def come_back(self, log: list[Entry]) -> None:
        """An unclean election brings a former leader back, with the log that it had."""
        self.log = list(log)
        self.leader_epoch += 1

    def clean(self, share: float) -> None:
        """The log cleaner removes batches, but none of the flow's that are not on record."""
        progress = self.state.progress.get(PLACE)
        clean(self.log, NO_OFFSET if progress is None else progress.reached.end, share, self.chance)

    def leaders_answer(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ends in the log, as its leader says; the cleaner does not change that."""
        starts = {self.leader_epoch: self.end}
        for entry in reversed(self.log):
            starts[entry.header.leader_epoch] = entry.header.base_offset
        if epoch == max(starts):
            return EpochEnd(epoch, self.end)
        higher = [each for each in sorted(starts) if each > epoch]
        if not higher:
            return EpochEnd(UNDEFINED, UNDEFINED)
        at_most = [each for each in starts if each <= epoch]
        return EpochEnd(max(at_most, default=epoch), starts[higher[0]])

    def retain(self, share: float) -> None:
        """Retention removes whole batches from the beginning of what is left."""
        left = [entry.header for entry in self.log if entry.header.base_offset >= self.start]
        count = round(share * len(left))
        if count:
            self.start = left[count - 1].last_offset + 1

    # ------------------------------------------------------------------------------------------------- the takeover

    def fence(self, *, other_id: bool = False) -> None:
        """Raises the epoch, or gets another producer id, which fences nobody."""
        if other_id:
            self.ids.append(self.ids[-1] + 10)
            self.writer, self.fenced = Writer(producer_id=self.ids[-1], epoch=0), None
            return
        self.writer = self.fenced = replace(self.writer, epoch=self.writer.epoch + 1)
        marker = TailBatch(
            self.end,
            self.end,
            *_named(self.writer),
            -1,
            count=1,
            control=True,
            newest_ms=1,
            leader_epoch=self.leader_epoch,
        )
        self.log.append(Entry(marker))

    def take_over(self) -> Decision:
        """Decides, reading headers as often as it is asked to, and puts on record what became known."""
        decision, tail = self.decided()
        before = self.state.progress.get(PLACE)
        if isinstance(decision, Resume | Begin) and before is not None:
            goes_back = decision.anew or decision.position < before.position
            if goes_back:
                self.state.take(self._gone_back(before, decision, tail))
        if isinstance(decision, Resume):
            for targets in decision.targets:
                self.state.take(targets)
            for key in decision.void:
                assert part_of(key) is not None
                self.state.forget(key)
        if isinstance(decision, Resume | Begin):
            self.begin(decision.position, anew=decision.anew, behind=self._behind(decision))
            (self.reached_in, self.reached), self.torn, self.cut = tail.reached, False, NO_OFFSET
            self.told += [str(decision.event)] if decision.event else []
        return decision

    def _behind(self, decision: Resume | Begin) -> LastRecord:
        """The record that the epoch comes after; what the takeover has found is on record."""
        told, progress, at = last_before(decision), self.state.progress.get(PLACE), decision.position
        another = progress is not None and (progress.topic_id, progress.target_id) != (self.topic_id, self.target_id)
        if told != NO_RECORD or another:
            return told
        return came_after(self.state.map_of(PLACE), progress, self.ids, at, at, anew=decision.anew)

    def decided(self) -> tuple[Decision, Tail]:
        """Decides, reading headers as often as it is asked to; the same where others' batches are told as one."""
        tail = self._tail(self.end - 2)
        for _ in range(64):
            decision = decide(self.observed(tail))
            assert _but_for_words(decide(self.observed(self._as_cached(tail)))) == _but_for_words(decision)
            if not isinstance(decision, ReadFrom):
                break
            assert self.start <= decision.offset < tail.since, "nothing new would be read"
            self.readings += 1
            tail = self._tail(decision.offset)
        return decision, tail

    def bound_map(self) -> None:
        """What nobody needs leaves the offset map; the rest is joined by a driver that may die over it."""
        keys = bound(self.state, {PLACE: Starts(self.source_start, self.start)}, self.ids)
        if keys:
            self.state.take(Bounded(partition=PLACE, source=self.source_start, target=self.start))
        for key in keys:
            self.state.forget(key)
        joined = condense(self.state, self.ids, 1 << 20, neighbours=2)
        for record in joined.records:
            self.state.take(record)
        for key in joined.void[: self.chance.randint(0, len(joined.void))]:
            self.state.forget(key)

    def _gone_back(self, before: Progress, decision: Resume | Begin, tail: Tail) -> Progress:
        return replace(
            before,
            writer=self.writer,
            generation=self.generation,
            position=decision.position,
            next_sequence=self.first_sequence,
            sequence=NO_OFFSET,
            source=NO_OFFSET,
            target=NO_OFFSET,
            first=NO_RECORD.first,
            before=last_before(decision).before,
            anew=decision.anew,
            reached=tail.reached,
            cut=NO_OFFSET,
        )

    def observed(self, tail: Tail) -> Observed:
        """What a driver sees."""
        progress = self.state.progress.get(PLACE)
        asked = UNKNOWN.leader_epoch if progress is None else progress.reached.leader_epoch
        return Observed(
            partition=PLACE,
            progress=progress,
            map=self.state.map_of(PLACE),
            ids=tuple(self.ids),
            tail=tail,
            start=0,
            target_id=self.target_id,
            sole_writer=not self.shared,
            fence=self.fenced,
            log=None if asked == UNKNOWN.leader_epoch else self.leaders_answer(asked),
        )

    def _as_cached(self, tail: Tail) -> Tail:
        """The same, as a driver keeps it that reads a log in turns."""
        joined: list[TailBatch] = []
        append(joined, tail.batches, {*self.ids, *(writer.producer_id for writer in self.state.writers())})
        return replace(tail, batches=tuple(joined))

    def _tail(self, offset: int) -> Tail:
        offset = max(offset, self.start)
        headers = tuple(e.header for e in self.log if e.header.last_offset >= offset and not e.cleaned)
        since = min([offset, *(header.base_offset for header in headers)])
        return Tail(start=self.start, high_watermark=self.end, batches=headers, since=max(since, self.start))


def clean(log: list[Entry], rolled: int, share: float, chance: Random) -> None:
    """The log cleaner removes batches, never the last one, nor the flow's in the active segment, from ``rolled`` on."""
    for entry in log[:-1]:
        left = entry.sources and entry.header.last_offset >= rolled
        entry.cleaned = entry.cleaned or (not left and chance.random() < share)


def _but_for_words(decision: Decision) -> tuple[Decision, Kind | None]:
    """Where the log was torn is told by batches, and may be told to be further back where these are told as one."""
    event = None if isinstance(decision, ReadFrom | Stuck) else decision.event
    told = decision if isinstance(decision, ReadFrom | Stuck) else replace(decision, event=None)
    return told, None if event is None else event.kind


def _named(writer: Writer) -> tuple[int, int]:
    return writer.producer_id, writer.epoch


__all__ = ["PLACE", "Begin", "Entry", "Resume", "Stuck", "World", "clean"]

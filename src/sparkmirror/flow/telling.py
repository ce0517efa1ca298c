"""What the operator is told of partitions: each event once, however often it comes back in progress and receipts.

An event goes to the log, in one line for a topic however many of its partitions it concerns, and on record in the
flow's internal topic, where ``status`` finds it for a week: the newest of each kind for each partition.

Invariants: what says the same of the same partition is told again after an hour at the earliest, also after a restart,
unless it tells of records that are lost or there twice by now: such an event is told once each time; a partition that
goes on by itself after it stood still is told of too; what cannot be put on record now is kept until it can be; what a
driver or a lane left behind that died before it was told of is told by the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.foreign import told_of
from sparkmirror.offsets.records import FLOW, Happened, Progress, event_key
from sparkmirror.offsets.state import JournalState

EVENTS_KEPT = 50
"""Of a partition, to know which were told: a shift keeps 20, and its last come when the next one has begun."""

AGAIN_MS = 3_600_000
KEPT_MS = 7 * 24 * 3_600_000
SURE_MS = 30_000
"""A partition that was idle and without an error for so long goes on again; one that copies does so at once."""

LASTING = frozenset({Kind.FOREIGN_WRITER, Kind.FOREIGN_RECORD, Kind.THROTTLED})
"""Kinds that last, or come again and again, with other figures each time."""

LOSSES = frozenset(
    {
        Kind.SOURCE_RETENTION,
        Kind.SOURCE_TAIL_LOST,
        Kind.SOURCE_RECREATED,
        Kind.TARGET_TAIL_LOST,
        Kind.TARGET_RECREATED,
        Kind.MAY_REPEAT,
        Kind.FORGED_BATCH,
    }
)
"""What happens a second time in the same words is another loss, unless a partition only stands still before it."""

ALONE = 3
"""Up to so many partitions of a topic have a line each."""

Note = Callable[[str], None]


class Telling:
    """Tells the events of one flow.

    Args:
        note: takes what is new, as a line for people.
        known: the events on record, by key; told already.
    """

    def __init__(self, note: Note, known: Mapping[str, Happened]) -> None:
        self._note = note
        self._told: dict[TopicPartition, dict[tuple[Kind, str], int]] = defaultdict(dict)
        self._losses: dict[TopicPartition, dict[tuple[Kind, int], None]] = defaultdict(dict)
        self._new: list[Happened] = []
        self._silent: set[Happened] = set()
        self._unrecorded: dict[str, Happened] = {}
        self._standing: dict[TopicPartition, tuple[int, int]] = {}
        for happened in known.values():
            self._remember(happened.partition, happened.event)

    def tell(self, partition: TopicPartition, events: Sequence[Event], error: str = "") -> None:
        """Takes the events of a partition; those that are new are told by the next `speak`.

        Args:
            partition: whose.
            events: the newest last.
            error: why it stands still; goes on record only, since whoever lets it rest says so. Not so of a target
                topic that was changed: the partition is planned again, and does not rest.
        """
        for event in events:
            if self._is_new(partition, event, error):
                self._remember(partition, event)
                happened = Happened(partition=partition, event=event)
                self._new.append(happened)
                if event.text == error and event.kind is not Kind.TARGET_CHANGED:
                    self._silent.add(happened)
            self._remember_loss(partition, event)

    def stands(self, partition: TopicPartition, position: int) -> None:
        """A partition begins to stand still at a source offset, or does so again."""
        _, since = self._standing.get(partition, (position, now_ms()))
        self._standing[partition] = (position, since)

    def flows(self, partition: TopicPartition, position: int, since_ms: int) -> None:
        """A lane has the partition, without an error since a moment of the wall clock."""
        standing = self._standing.get(partition)
        if standing is None or (position == standing[0] and now_ms() - since_ms < SURE_MS):
            return
        del self._standing[partition]
        seconds = (now_ms() - standing[1]) // 1000
        text = f"goes on by itself at offset {position}, having stood still for {seconds} s"
        self.tell(partition, [Event(kind=Kind.GOES_ON, text=text, first=position, last=position)])

    def speak(self) -> tuple[Happened, ...]:
        """Tells what is new, and gives what is not `recorded` yet to be put on record."""
        new, self._new = tuple(self._new), []
        for line in lines(happened for happened in new if happened not in self._silent):
            self._note(line)
        self._silent.clear()
        self._unrecorded |= {happened.key: happened for happened in new}
        return tuple(self._unrecorded.values())

    def recorded(self, happened: Iterable[Happened]) -> None:
        """What `speak` gave is on record."""
        for one in happened:
            self._unrecorded.pop(one.key, None)

    def _is_new(self, partition: TopicPartition, event: Event, error: str) -> bool:
        if event.kind in LOSSES and event.text != error:
            return (event.kind, event.time_ms) not in self._losses[partition]
        before = self._told[partition].get(_same(event))
        return before is None or event.time_ms - before >= AGAIN_MS

    def _remember(self, partition: TopicPartition, event: Event) -> None:
        self._remember_loss(partition, event)
        told = self._told[partition]
        told.pop(_same(event), None)
        told[_same(event)] = event.time_ms
        while len(told) > EVENTS_KEPT:
            del told[next(iter(told))]

    def _remember_loss(self, partition: TopicPartition, event: Event) -> None:
        losses = self._losses[partition]
        losses[event.kind, event.time_ms] = None
        while len(losses) > EVENTS_KEPT:
            del losses[next(iter(losses))]


def _same(event: Event) -> tuple[Kind, str]:
    """What makes two events the same to an operator."""
    return event.kind, "" if event.kind in LASTING else event.text


def lines(happened: Iterable[Happened]) -> list[str]:
    """Events for people: one line each, but one for a topic where many of its partitions have the same kind."""
    groups: dict[tuple[str, Kind], list[Happened]] = defaultdict(list)
    for one in happened:
        groups[one.partition.topic, one.event.kind].append(one)
    found = []
    for (topic, _), some in groups.items():
        partitions = {one.partition for one in some}
        if len(partitions) <= ALONE:
            found += [_line(one) for one in some]
        else:
            found.append(f"{_line(some[0])} (and the same kind in {len(partitions) - 1} more partitions of {topic})")
    return found


def _line(happened: Happened) -> str:
    text = happened.event.text
    if happened.partition == FLOW:
        return text
    place = str(happened.partition)
    return text if text.startswith(place) else f"{place}: {text}"


def unrecorded(progress: Iterable[Progress], known: Mapping[str, Happened]) -> Iterator[Happened]:
    """Events in progress that are newer than those of their kind on record, and than a week.

    Args:
        progress: of partitions, whichever run wrote it.
        known: the events on record, by key.
    """
    for each in progress:
        for event in each.events:
            before = known.get(event_key(each.partition, event.kind))
            if event.time_ms > (now_ms() - KEPT_MS if before is None else before.event.time_ms):
                yield Happened(partition=each.partition, event=event)


def of_others(known: JournalState, place: str, more: Iterable[str] = ()) -> list[Event]:
    """What others have written to a flow's own topics; one event for all that is passed over.

    Args:
        known: what the internal topic says.
        place: of that topic.
        more: lines about other topics of the flow.
    """
    passed, broken = "; ".join((*known.foreign.lines(place), *more)), told_of(place, known.broken)
    found = [(Kind.FOREIGN_RECORD, passed), (Kind.STOPPED, broken)]
    return [Event(kind=kind, text=text) for kind, text in found if text]


def outlived(known: Mapping[str, Happened]) -> tuple[str, ...]:
    """The keys of events that have been on record for long enough."""
    return tuple(key for key, happened in known.items() if now_ms() - happened.event.time_ms > KEPT_MS)


def stands(partition: TopicPartition, error: str) -> str:
    """The event of a partition that stands still; most errors name it themselves."""
    return f"stands still: {error}" if error.startswith(str(partition)) else f"{partition} stands still: {error}"

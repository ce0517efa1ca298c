"""What a mirror lost, repeated and brought out of order, by unique ids of the records.

The referee says whether two topics are equal; this says how unequal they are, which a fault laboratory wants to know.
Pure, but for `ids_of`, which reads with librdkafka.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from sparkmirror.errors import LabError
from sparkmirror.lab.records import Reader, extents

BEHIND_THE_ID = b"|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Two logs of one partition, or the sum over several, counted.

    Attributes:
        records: on the source.
        lost: ids of the source that the target lacks.
        repeated: records of the target whose id it had already, and the source had not.
        reordered: records of the target that lie behind one that comes later on the source.
        foreign: records of the target whose id the source lacks.
    """

    records: int = 0
    lost: int = 0
    repeated: int = 0
    reordered: int = 0
    foreign: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            records=self.records + other.records,
            lost=self.lost + other.lost,
            repeated=self.repeated + other.repeated,
            reordered=self.reordered + other.reordered,
            foreign=self.foreign + other.foreign,
        )

    @property
    def clean(self) -> bool:
        """Whether the target holds exactly the source's records, in their order."""
        return not (self.lost or self.repeated or self.reordered or self.foreign)


def tally(here: Sequence[int], there: Sequence[int]) -> Tally:
    """Counts one partition: the ids of the source in order, and those of the target."""
    place = {number: at for at, number in enumerate(here)}
    on_source, on_target = Counter(here), Counter(there)
    reordered, highest = 0, -1
    for number in dict.fromkeys(there):  # a repeat is counted as one, not as out of order
        at = place.get(number)
        if at is not None:
            reordered += at < highest
            highest = max(highest, at)
    return Tally(
        records=len(here),
        lost=sum(number not in on_target for number in place),
        repeated=sum(max(0, count - max(1, on_source[number])) for number, count in on_target.items()),
        reordered=reordered,
        foreign=sum(number not in place for number in on_target),
    )


def tally_all(here: Mapping[int, Sequence[int]], there: Mapping[int, Sequence[int]]) -> dict[int, Tally]:
    """Counts every partition of a topic."""
    return {number: tally(here.get(number, ()), there.get(number, ())) for number in sorted({*here, *there})}


def ids_of(servers: str, topic: str, *, last: int = 0) -> dict[int, list[int]]:
    """The ids of the committed records of each partition, in order.

    Args:
        servers: bootstrap servers.
        topic: its values begin with an id and ``|``.
        last: only from so many offsets before the end; 0 for all.

    Raises:
        LabError: the cluster does not answer, or a value has no id.
    """
    extent_of = extents(servers, topic)
    if last:
        extent_of = {number: each.within(last) for number, each in extent_of.items()}
    found: dict[int, list[int]] = {number: [] for number in extent_of}
    with Reader(servers, topic, extent_of) as reader:
        for messages in reader:
            for message in messages:
                found[message.partition()].append(id_of(message))  # type: ignore[index]  # a record has a partition
    return found


def id_of(message: Message) -> int:
    """The id of a record.

    Raises:
        LabError: its value has none.
    """
    try:
        return number_of(message.value() or b"")
    except ValueError:
        place = f"{message.topic()}-{message.partition()}"
        raise LabError(f"{place}: the record at {message.offset()} has no id") from None


def number_of(value: bytes) -> int:
    """The id that a value begins with.

    Raises:
        ValueError: it has none.
    """
    number, mark, _ = value.partition(BEHIND_THE_ID)
    if not mark or not number.isdigit():
        raise ValueError("no id")
    return int(number)

"""The writers of a partition in the order of their ages: who came after whom, and who began anew. Pure.

Invariant: the order is that in which producer ids were registered, then that of epochs; an id that nobody registered
is older than all.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import TargetsKey


@dataclass(frozen=True, slots=True)
class Lineage:
    """The writers that the records of one partition know.

    Attributes:
        progress: the newest on record, or None.
        map: its segments.
        ids: producer ids of the flow in the order in which they were registered.
    """

    progress: Progress | None
    map: PartitionMap
    ids: tuple[int, ...]

    def rank(self, writer: Writer) -> tuple[int, int]:
        """Orders writers by age."""
        return (self.ids.index(writer.producer_id) if writer.producer_id in self.ids else -1, writer.epoch)

    def on_record(self) -> tuple[Writer, ...]:
        """All of them, oldest first."""
        writers = set(self.map.writers(self.ids))
        if self.progress is not None:
            writers.add(self.progress.writer)
        return tuple(sorted(writers, key=self.rank))

    @property
    def newest(self) -> Writer | None:
        """The newest of them, or None if there are none."""
        return max(self.on_record(), key=self.rank, default=None)

    def is_older(self, writer: Writer) -> bool:
        """Whether a writer is older than all on record: what it wrote was there before the flow began anew."""
        return all(self.rank(writer) < self.rank(known) for known in self.on_record())

    def older(self, writer: Writer) -> tuple[Writer, ...]:
        """Writers with segments that came before ``writer``, oldest first."""
        return tuple(other for other in self.map.writers(self.ids) if self.rank(other) < self.rank(writer))

    def newer(self, writer: Writer) -> tuple[Writer, ...]:
        """Writers with segments that came after ``writer``, oldest first."""
        return tuple(other for other in self.map.writers(self.ids) if self.rank(other) > self.rank(writer))

    def sent_nothing(self, writer: Writer) -> tuple[Writer, ...]:
        """The writer of the progress, if it is newer than ``writer`` and has sent nothing yet."""
        progress = self.progress
        if progress is None or progress.sequence != NO_OFFSET:
            return ()
        return (progress.writer,) if self.rank(progress.writer) > self.rank(writer) else ()

    def void(self, partition: TopicPartition, writer: Writer, but: Container[Writer] = ()) -> tuple[str, ...]:
        """Keys of the target offsets of writers newer than ``writer``, where nothing of them is left, ``but`` some."""
        return tuple(
            TargetsKey(partition, newer, block.sequence).text
            for newer in self.newer(writer)
            if newer not in but and (pieces := self.map.pieces(newer)) is not None
            for _, block in pieces.targets.stored()
        )

    def began_anew(self, writers: Iterable[Writer]) -> bool:
        """Whether one of the writers did, as its segments or its progress say; see `Segment`."""
        return any(self._anew(writer) for writer in writers)

    def _anew(self, writer: Writer) -> bool:
        if self.progress is not None and self.progress.writer == writer and self.progress.anew:
            return True
        pieces = self.map.pieces(writer)
        return pieces is not None and pieces.anew

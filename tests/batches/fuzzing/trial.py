"""One case through every kernel, each answer compared with its plain-Python twin.

``Trial.run`` tells what happened as *facts*: short texts such as ``needs THIN TRIM`` or ``merge: the batch's records do
not fit its header``. Two cases with the same facts took the same way; a case with a new fact is worth keeping.

Invariants that are checked beside the twins: what is made indexes soundly and keeps to the limits; every record that
was taken is there once, in order, with its source offset; only a BatchError is raised, and only for a batch that the
twin refuses too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sparkmirror import batches
from sparkmirror.batches import Codec, Indexed, Kept, Merged, Need, Reason, Run, Stamp
from sparkmirror.errors import BatchError, RecordTooLargeError
from tests.batches import oracle
from tests.batches.building import unpack
from tests.batches.fuzzing.case import Case, same
from tests.batches.fuzzing.direct import Direct
from tests.batches.fuzzing.lane import Lane
from tests.batches.fuzzing.reading import Reader
from tests.batches.fuzzing.tables import Table
from tests.batches.oracle import Record, Row

WRITER = 4_000, 3
SMALL, SMALL_COMPRESSED = 150, 110


def kind(error: BatchError) -> str:
    """What an error is about, without numbers and without the words of a library."""
    text = re.sub(r"\d+", "N", error.reason)
    return f"{type(error).__name__}: " + re.sub(r"(data is damaged).*", r"\1", text)


def rows_of(indexed: Indexed) -> list[Row]:
    """The table of an index as the twin has it."""
    return [Row(*column) for column in indexed.table.T.tolist()]


class Trial:
    """A case on its way through ``batches/``, as a lane would lead it."""

    def __init__(self, case: Case) -> None:
        self.case, self.setting = case, case.setting
        self.facts: list[str] = []
        self.batches = self.records = 0
        self.target = case.setting.target()

    def tell(self, *words: object) -> None:
        self.facts.append(" ".join(str(word) for word in words))

    def run(self) -> tuple[str, ...]:
        """All of it; the facts, each once, in the order in which they came up."""
        indexed = self.index()
        kept = self.keep(indexed)
        self.decide(indexed, kept)
        self.reader = Reader(self.case, self.rows)
        Merger(self, indexed, kept).run()
        Direct(self.case, indexed, self.reader).run(self.rows)
        Table(indexed, kept, self.setting, self.tell).run(self.rows, self.reader.records, kind)
        lane = Lane(self.case, self.target)
        lane.run(self.tell, kind)
        if not any(fact.startswith("keep:") for fact in self.facts):  # else it stops before the marker
            lane.compare([self.reader.records(n) for n in self._taken(kept)])
        return tuple(dict.fromkeys(self.facts))

    def _taken(self, kept: Kept) -> list[int]:
        """The columns that a lane has to copy."""
        until = self.setting.until
        return [n for n, row in enumerate(self.rows) if not kept.reasons[n] and (until < 0 or row.first < until)]

    def index(self) -> Indexed:
        """The walk, and what is read from the table."""
        indexed = batches.index(self.case.data)
        self.rows, fault, end = oracle.walk(self.case.data)
        same((rows_of(indexed), indexed.fault, indexed.end), (self.rows, fault, end), "walk")
        self.batches += len(self.rows)
        for row in self.rows:
            self.tell("magic", row.magic, "codec", row.codec)
        if indexed.error is not None:
            self.tell("index:", kind(indexed.error))
        unknown = batches.unknown_producers(indexed, batches.producers({7})).tolist()
        same((set(unknown), len(unknown)), (found := oracle.strangers(self.rows, {7}), len(found)), "strangers")
        return indexed

    def keep(self, indexed: Indexed) -> Kept:
        """Which batches stay; where an end marker cannot be read, as read_uncommitted sees them."""
        start, loops, aborted = self.setting.start, self.setting.loops, self.setting.aborted
        reasons, fault = oracle.drop(self.case.data, self.rows, start, loops, aborted)
        known = batches.producers(loops)
        try:
            kept = batches.keep(indexed, start_offset=start, aborted=aborted, dropped_producers=known)
        except BatchError as error:
            same(error.offset, self.rows[fault].first, "the offset of an unreadable marker")
            self.tell("keep:", kind(error))
            reasons, fault = oracle.drop(self.case.data, self.rows, start, loops, ())
            kept = batches.keep(indexed, start_offset=start, dropped_producers=known)
        same((kept.reasons.tolist(), fault), (reasons, -1), "drop")
        for reason in sorted(set(reasons)):
            self.tell("reason", Reason(reason).name)
        return kept

    def decide(self, indexed: Indexed, kept: Kept) -> None:
        """What has to be opened, and which neighbours are treated alike."""
        setting, reasons = self.setting, kept.reasons.tolist()
        codes = batches.needs(indexed, kept, self.target)
        wanted = setting.start, setting.broker_time, setting.codec, setting.limit
        self.codes = oracle.classify(self.rows, reasons, *wanted)
        same(codes.tolist(), self.codes, "classify")
        for code in sorted(set(self.codes)):
            self.tell("needs", Need(code).name or "PASS")
        sizes = {"small": SMALL, "small_compressed": SMALL_COMPRESSED}
        cut = batches.stretches(indexed, kept, codes, until=setting.until, **sizes)
        same(cut, oracle.cut(self.rows, reasons, self.codes, setting.until, **sizes), "cut")
        self.tell("stretches", min(len(cut[0]), 4), *sorted({stretch.kind for stretch in cut[0]}))


class Merger:
    """The batches of an index made new, as the copy loop does it; what comes out is opened and compared."""

    def __init__(self, trial: Trial, indexed: Indexed, kept: Kept) -> None:
        self.trial, self.indexed, self.kept = trial, indexed, kept
        self.setting = trial.setting
        self.stamp = Stamp(producer_id=WRITER[0], epoch=WRITER[1], sequence=self.setting.sequence)
        self.left_out: frozenset[int] = frozenset()
        self.records = trial.reader.records

    def run(self) -> None:
        column, stop = 0, len(self.indexed)
        while column < stop:
            try:
                merging = self._merge(column, stop)
            except RecordTooLargeError as error:
                self._too_large(error, column)
                continue
            except BatchError as error:
                stop = self._refused(error, column)
                continue
            after = merging.column if merging.run == 0 else stop
            if not column < after <= stop:
                raise AssertionError(f"merging went from column {column} to {after} of {stop}")
            self._compare(merging.batches, column, after)
            column = after

    def _merge(self, column: int, stop: int) -> batches.Merging:
        return batches.merge(
            [Run(indexed=self.indexed, kept=self.kept, first=column, stop=stop)],
            self.trial.target,
            self.stamp,
            batch_size=self.setting.batch_size,
            decompression_limit=self.setting.decompression_limit,
            left_out=self.left_out,
        )

    def _too_large(self, error: RecordTooLargeError, column: int) -> None:
        """It has to be there and new; then the caller has seen to it."""
        self.trial.tell("merge:", kind(error))
        rows, known = self.trial.rows[column:], self.left_out
        for offset in error.offsets:
            inside = any(row.first <= offset <= row.last for row in rows)
            if not inside or offset < self.setting.start or offset in known:
                raise AssertionError(f"offset {offset} cannot be too large")
        self.left_out = known.union(error.offsets)

    def _refused(self, error: BatchError, column: int) -> int:
        """Only a batch that the twin refuses too may be refused, and only when no record is left before it."""
        self.trial.tell("merge:", kind(error))
        kept = [n for n in range(column, len(self.trial.rows)) if not self.kept.reasons[n]]
        bad = next((n for n in kept if self.records(n) != []), None)
        row = None if bad is None else self.trial.rows[bad]
        if bad is None or row is None or self.records(bad) is not None:
            raise AssertionError(f"refused without a reason: {error}")
        if row.magic == 2:
            same(row.first <= error.offset <= row.last, True, "the offset of an error")
        return bad

    def _compare(self, made: Sequence[Merged], column: int, stop: int) -> None:
        """The new batches hold what the source batches from ``column`` up to ``stop`` do."""
        taken = [n for n in range(column, stop) if not self.kept.reasons[n]]
        if len(made) == 1 and taken and self._is_passed(made[0], taken[-1]):
            same([self.records(n) for n in taken[:-1]], [[]] * (len(taken) - 1), "what lies before a passed batch")
            self.trial.tell("merge: passed")
            return
        got = [record for merged in made for record in self._opened(merged)]
        wanted: list[Record] = []
        for n in taken:
            found = self.records(n)
            if found is None:
                raise AssertionError(f"column {n} is damaged, and was taken")
            wanted += [record for record in found if record.offset not in self.left_out]
        same(got, wanted, "the records of a new batch")
        self.trial.records += len(got)
        self.trial.tell("merge:", min(len(taken), 3), "into", min(len(made), 3))

    def _is_passed(self, merged: Merged, column: int) -> bool:
        row, stamp = self.trial.rows[column], self.stamp
        source = self.trial.case.data[row.start : row.start + row.size]
        if self.trial.codes[column] or row.magic < 2:
            return False
        writer = stamp.producer_id, stamp.epoch, stamp.sequence
        if bytes(merged.batch) != oracle.restamp(source, writer):
            return False
        told = merged.count, merged.first_offset, merged.last_offset, merged.max_timestamp
        same(told, (row.count, row.first, row.last, row.max_time), "what is told of a passed batch")
        self.stamp = stamp.after(row.count)
        return True

    def _opened(self, merged: Merged) -> list[Record]:
        """The records of a new batch, with the source offsets that are told for them; its header is as it should be."""
        data = bytes(merged.batch)
        limit = self.setting.limit if data[22] & 7 else self.trial.target.room
        if len(data) > limit:
            raise AssertionError(f"a batch of {len(data)} bytes for a topic that allows {limit}")
        (row,), fault, _ = oracle.walk(data)
        found = oracle.records(row, unpack(Codec(row.codec), data[61:]))
        if fault or found is None:
            raise AssertionError("a new batch is not sound")
        same(batches.index(data).error, None, "the index of a new batch")
        times = [record.time for record in found]
        head = row.first, row.leader_epoch, row.attributes & ~7, row.producer, row.epoch, row.sequence, row.last
        writer = self.stamp.producer_id, self.stamp.epoch, self.stamp.sequence
        same(head, (0, -1, 0, *writer, len(found) - 1), "the header of a new batch")
        same((row.base_time, row.max_time), (times[0], max(times)), "the times of a new batch")
        told = merged.count, merged.max_timestamp
        same(told, (len(found), max(times)), "what is told of a new batch")
        self.trial.tell("made codec", row.codec)
        self.stamp = self.stamp.after(len(found))
        sources = source_offsets(merged)
        same((merged.first_offset, merged.last_offset), (sources[0], sources[-1]), "the ends of a new batch")
        return [record._replace(offset=source) for record, source in zip(found, sources, strict=True)]


def source_offsets(merged: Merged) -> list[int]:
    """The source offset of each record of a new batch."""
    numbers = np.arange(merged.count)
    run = np.searchsorted(merged.runs[0], numbers, side="right") - 1
    offsets: list[int] = (merged.runs[1][run] + numbers - merged.runs[0][run]).tolist()
    return offsets

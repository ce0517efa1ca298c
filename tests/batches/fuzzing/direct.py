"""Kernels called by themselves, with rooms, parts and places that no caller would choose."""

from __future__ import annotations

import random
import zlib
from typing import Any

import numpy as np

from sparkmirror.batches import NO_PRODUCERS, Indexed, layout
from sparkmirror.batches.kernels import index as index_kernel
from sparkmirror.batches.kernels import legacy as legacy_kernel
from sparkmirror.batches.kernels import pass_through as pass_through_kernel
from sparkmirror.batches.kernels import pour as pour_kernel
from sparkmirror.batches.kernels import provenance as provenance_kernel
from sparkmirror.batches.kernels import select as select_kernel
from tests.batches import oracle, oracle_old, oracle_provenance
from tests.batches.fuzzing.case import Case, same
from tests.batches.fuzzing.reading import Reader
from tests.batches.oracle import Row

WRITER = 4_000, 3, 2**31 - 1
MARGIN = 64
CUTS = 6
ABORTED = np.array([[0, 0, 0], [7, 8, 9]], np.int64)
LARGEST_ROOM = 4_000


class Vessel:
    """The arrays that a kernel pours into, with a margin that it must not touch."""

    def __init__(self, room: int, runs: int) -> None:
        self.room = room
        self.out = np.full(room + MARGIN, 0xAA, np.uint8)
        self.state = np.zeros(pour_kernel.STATE, np.int64)
        self.state[pour_kernel.AT] = layout.HEADER
        self.runs = np.empty((2, runs), np.int64)

    def check(self, wanted: oracle.Poured) -> None:
        """What was poured is what the twin has poured."""
        records, written = len(wanted.found), oracle.packed(wanted.found)
        told = self.state[[pour_kernel.RECORDS, pour_kernel.AT]].tolist()
        same(told, [records, layout.HEADER + len(written)], "records and size")
        same(self.out[layout.HEADER : layout.HEADER + len(written)].tobytes(), written, "the records poured")
        same(bool((self.out[self.room :] == 0xAA).all()), True, "the margin behind the room")
        runs = self.runs[:, : self.state[pour_kernel.RUNS]]
        same([tuple(run) for run in runs.T.tolist()], wanted.runs, "runs")
        if records:
            times, offsets = [r.time for r in wanted.found], [r.offset for r in wanted.found]
            fields = [pour_kernel.BASE, pour_kernel.NEWEST, pour_kernel.FIRST_OFFSET, pour_kernel.LAST_OFFSET]
            same(self.state[fields].tolist(), [times[0], max(times), offsets[0], offsets[-1]], "times and offsets")


class Direct:
    """One case through those kernels."""

    def __init__(self, case: Case, indexed: Indexed, reader: Reader) -> None:
        self.case, self.setting, self.indexed, self.reader = case, case.setting, indexed, reader

    def run(self, rows: list[Row]) -> None:
        for n, row in enumerate(rows):
            if row.magic == 2:
                self._pour(n, row)
            else:
                self._convert(row)
        self._restamp(rows)
        self._mark(rows)
        self._cut_short(rows)

    def _pour(self, n: int, row: Row) -> None:
        payload = self.reader.payload(n)
        if payload is None:
            return
        setting = self.setting
        room, most_runs = min(setting.batch_size, setting.limit, LARGEST_ROOM), 1 + setting.part
        vessel, source = Vessel(room, most_runs), np.frombuffer(payload, np.uint8)
        why, record = pour_kernel.pour_records(
            source,
            0,
            self.indexed.table,
            n,
            setting.start,
            setting.part,
            setting.most,
            vessel.out,
            room,
            vessel.state,
            vessel.runs,
        )
        wanted = oracle.pour(
            row,
            payload,
            start=setting.start,
            part=setting.part,
            most=setting.most,
            room=room,
            most_runs=most_runs,
        )
        same((why, record), (wanted.why, wanted.record), "pour_records")
        vessel.check(wanted)

    def _convert(self, row: Row) -> None:
        """Messages from somewhere inside one, so that every field is read where it does not lie."""
        data, stop = self.case.data, row.start + row.size
        at = row.start + 5 * self.setting.part
        array = np.frombuffer(data, np.uint8)
        same(legacy_kernel.survey(array, at, stop), oracle_old.survey(data, at, stop), "survey")
        same(legacy_kernel.value_of(array, at, stop), oracle_old.value_of(data, at, stop), "value_of")
        how = self.setting.start, self.setting.part & 1, int(self.setting.broker_time), self.setting.sequence
        why, offset, _, _ = legacy_kernel.convert(array, at, stop, *how)
        same((why, offset), oracle_old.convert(data, at, stop, *how)[:2], "convert")

    def _restamp(self, rows: list[Row]) -> None:
        """The last batch in a copy of the answer, and a place that is no batch's."""
        data = self.case.data
        own = np.frombuffer(bytearray(data), np.uint8)
        outside = pass_through_kernel.restamp(own, len(data) - 60 + self.setting.part, 61, *WRITER)
        same(bool(outside), False, "restamp outside")
        for row in [row for row in rows if row.magic == 2][-1:]:
            stop = row.start + row.size
            same(bool(pass_through_kernel.restamp(own, row.start, row.size, *WRITER)), True, "restamp")
            wanted = data[: row.start] + oracle.restamp(data[row.start : stop], WRITER) + data[stop:]
            same(own.tobytes(), wanted, "a batch with another header")

    def _mark(self, rows: list[Row]) -> None:
        """Every batch in turn as if it were the only one, with a room that may be too small."""
        mark: Any = provenance_kernel.mark  # what it is typed as knows no arrays
        data, flow = np.frombuffer(self.case.data, np.uint8), (b"header", b"b", b"c", b"a,b")
        texts = [np.frombuffer(text, np.uint8) for text in flow]
        for n, row in enumerate(rows):
            if row.magic < 2 or row.codec:
                continue
            reasons = np.ones(len(rows), np.uint8)
            reasons[n] = oracle.KEPT
            room = row.size + self.setting.part * 400
            out, made = np.full(room + MARGIN, 0xAA, np.uint8), self.indexed.table.copy()
            spans = np.tile(np.array([[0], [3]], np.int64), (1, len(rows)))
            reached, _ = mark(data, self.indexed.table, reasons, *texts, spans, out[:room], made)
            same(bool((out[room:] == 0xAA).all()), True, "the margin behind the room")
            if int(reached) == len(rows):
                (wanted,) = oracle_provenance.mark(self.case.data, [row], [oracle.KEPT], *flow[:3], [b"a,b"])
                new = Row(*made[:, n].tolist())
                found = oracle_provenance.seen(out.tobytes(), new) if new.size else []
                same(found, wanted, "mark")

    def _cut_short(self, rows: list[Row]) -> None:
        """The same bytes, ending anywhere: what a kernel reads behind the end shows under bounds checking."""
        data, rng = np.frombuffer(self.case.data, np.uint8), random.Random(zlib.crc32(self.case.data))
        payloads = [(n, self.reader.payload(n)) for n, row in enumerate(rows) if row.magic == 2][:3]
        vessel = Vessel(rng.randint(61, 400), 1 + len(rows))
        for _ in range(CUTS):
            at, stop = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
            table, count, _, _ = index_kernel.walk(data[:stop])
            same(table[0, :count].tolist(), [row.start for row in rows[:count]], "walk of a shorter answer")
            select_kernel.drop(data[:stop], np.ascontiguousarray(table[:, :count]), at, NO_PRODUCERS, ABORTED)
            legacy_kernel.survey(data, at, stop)
            legacy_kernel.value_of(data, at, stop)
            legacy_kernel.convert(data, at, stop, at, at & 1, stop & 1, stop)
            for n, payload in payloads:
                if payload is not None:
                    self._pour_short(n, np.frombuffer(payload, np.uint8)[: rng.randint(0, len(payload))], vessel)

    def _pour_short(self, n: int, payload: np.ndarray, vessel: Vessel) -> None:
        """Pours on where the last one ended, until the vessel is full."""
        pour_kernel.pour_records(
            payload, 0, self.indexed.table, n, 0, 0, 2**62, vessel.out, vessel.room, vessel.state, vessel.runs
        )
        same(bool((vessel.out[vessel.room :] == 0xAA).all()), True, "the margin behind the room")

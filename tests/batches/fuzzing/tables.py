"""A case as columns: what ``decode`` gives against the plain-Python reader, and back through ``encode``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sparkmirror.batches import Codec, Indexed, Kept
from sparkmirror.batches.columns import column_schema
from sparkmirror.batches.decode import decode, decode_by_chunk
from sparkmirror.batches.encode import encode
from sparkmirror.errors import BatchError, RecordTooLargeError
from tests.batches import oracle
from tests.batches.building import unpack
from tests.batches.fuzzing.case import Setting, same
from tests.batches.oracle import Record, Row

Read = Callable[[int], list[Record] | None]


def rows_of_table(rows: Sequence[Row], kept: Kept, read: Read, setting: Setting) -> list[dict[str, Any]] | None:
    """The rows that a table of the kept batches has; None where one of them has to be refused."""
    found = []
    for n, row in enumerate(rows):
        beyond = 0 <= setting.until <= row.first
        if kept.reasons[n] or beyond:
            continue
        records = read(n)
        if records is None:
            return None
        kind = -1 if row.magic == 0 else 1 if row.attributes & 8 else 0
        for record in records:
            if 0 <= setting.until <= record.offset:
                continue
            read_fields = oracle.fields(record.tail)
            if read_fields is None:
                return None
            key, value, headers = read_fields
            pairs = [{"key": name, "value": content} for name, content in headers]
            times = {"offset": record.offset, "timestamp": record.time, "timestamp_type": kind}
            found.append({**times, "key": key, "value": value, "headers": pairs})
    return found


class Table:
    """The columns of a case."""

    def __init__(self, indexed: Indexed, kept: Kept, setting: Setting, tell: Callable[..., None]) -> None:
        self.indexed, self.kept, self.setting, self.tell = indexed, kept, setting, tell

    def run(self, rows: Sequence[Row], read: Read, kind: Callable[[BatchError], str]) -> None:
        """Decodes, compares, encodes, and compares again."""
        wanted = rows_of_table(rows, self.kept, read, self.setting)
        try:
            table = decode(
                self.indexed,
                self.kept,
                until=None if self.setting.until < 0 else self.setting.until,
                decompression_limit=self.setting.decompression_limit,
                chunk_bytes=self.setting.batch_size,
            )
        except BatchError as error:
            self.tell("decode:", kind(error))
            if wanted is not None:
                raise AssertionError(f"decode refused sound batches: {error}") from error
            return
        got = table.to_pylist()
        same(got, wanted, "decode")
        self.tell("decoded", min(len(got), 3), "rows in", min(table.num_columns and len(table.to_batches()), 3))
        self._encode(table, got, kind)
        self._encode(self._packed(), got, kind)

    def _packed(self) -> pa.Table:
        """The same, with all headers of each record packed."""
        chunks = decode_by_chunk(
            self.indexed,
            self.kept,
            until=None if self.setting.until < 0 else self.setting.until,
            decompression_limit=self.setting.decompression_limit,
            chunk_bytes=self.setting.batch_size,
            most_headers=0,
        )
        return pa.Table.from_batches(chunks, schema=column_schema(packed=True))

    def _encode(self, table: Any, rows: list[dict[str, Any]], kind: Callable[[BatchError], str]) -> None:
        setting = self.setting
        codec = Codec(max(0, setting.codec))
        try:
            made = encode(table, codec=codec, batch_size=setting.batch_size, max_message_bytes=setting.limit)
        except RecordTooLargeError as error:
            self.tell("encode:", kind(error))
            if error.offset not in {row["offset"] for row in rows}:
                raise AssertionError(f"no record has offset {error.offset}") from error
            return
        got: list[tuple[Any, ...]] = []
        for encoded in made:
            same(encoded.first_row, len(got), "the first row of an encoded batch")
            got += self._opened(encoded)
        wanted = [
            (row["timestamp"], row["key"], row["value"], tuple((h["key"], h["value"]) for h in row["headers"]))
            for row in rows
        ]
        same(got, wanted, "encode")
        self.tell("encoded", min(len(made), 3), "batches")

    def _opened(self, encoded: Any) -> list[tuple[Any, ...]]:
        data = bytes(encoded.batch)
        (row,), fault, _ = oracle.walk(data)
        records = oracle.records(row, unpack(Codec(row.codec), data[61:]))
        if fault or records is None or row.count != encoded.count or len(data) > self.setting.limit:
            raise AssertionError(f"an encoded batch is not sound: {row}")
        newest = max(record.time for record in records)
        same((row.base_time, row.max_time), (records[0].time, newest), "the times of an encoded batch")
        same(encoded.max_timestamp, newest, "the newest time of an encoded batch")
        return [(record.time, *(oracle.fields(record.tail) or ())) for record in records]

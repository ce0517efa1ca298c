"""Each kernel against its plain-Python twin (``oracle``), over batches of every kind, sound and damaged."""

from __future__ import annotations

import random
import sys
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba.core.dispatcher import Dispatcher

from sparkmirror import batches
from sparkmirror.batches import Codec, Indexed
from sparkmirror.batches.kernels import decode as decode_kernel
from sparkmirror.batches.kernels import index as index_kernel
from sparkmirror.batches.kernels import legacy as legacy_kernel
from sparkmirror.batches.kernels import pass_through as pass_through_kernel
from sparkmirror.batches.kernels import pour as pour_kernel
from sparkmirror.batches.kernels import select as select_kernel
from sparkmirror.batches.kernels import stretches as stretches_kernel
from tests.batches import oracle, oracle_old
from tests.batches.building import Written, compiled
from tests.batches.fuzzing.counting import KERNELS, kernels
from tests.batches.fuzzing.damage import damaged
from tests.batches.fuzzing.direct import Vessel
from tests.batches.fuzzing.seeds import seeds
from tests.batches.fuzzing.trial import rows_of
from tests.batches.kernels.test_words import READERS, WRITERS
from tests.batches.kinds import encode, every_kind, logs_of_every_kind
from tests.batches.oracle import Row

SEEDS = seeds()
WRITER = 4_000, 3, 2**31 - 1
UNLIMITED = 2**62

TWINS = {
    "index.walk",
    "select.drop",
    "select.classify",
    "select.strangers",
    "stretches.cut",
    "pour.measure",
    "pour.pour_batches",
    "pour.pour_records",
    "pour.seal",
    "pass_through.restamp",
    "legacy.survey",
    "legacy.value_of",
    "legacy.convert",
    "legacy.together",
    "decode.measure",
    "decode.fill",
    "encode.pack",
    "provenance.mark",
}
"""Those that are compared here, the loops of columns, which ``fuzzing.tables`` reads with ``oracle.fields``, and the
last one, in ``test_provenance``."""

PARTS = {
    "crc": {"append_by_instruction", "append_by_table", "crc32c", "multiply", "shift"},
    "crc32": {"crc32"},
    "decode": {"headers_in"},
    "deltas": {"delta_of", "time_of"},
    "pour": {"parse"},
    "varint": {"read", "size_of", "write"},
    "words": {*READERS, *WRITERS, "copy", "reach"},
}
"""What kernels share: compared here, or in the test file of that name. The rest is private to one file's kernels."""

sound = logs_of_every_kind().map(lambda log: b"".join(encode(batch, stream) for batch, stream in log))
broken = st.builds(lambda answer, seed: damaged(answer, SEEDS, random.Random(seed)), sound, st.integers(0, 2**32))
from_seeds = st.builds(
    lambda answer, seed: damaged(answer, SEEDS, random.Random(seed)), st.sampled_from(SEEDS), st.integers(0, 2**32)
)
answers = sound | broken | from_seeds | st.sampled_from(SEEDS)


class Answer(NamedTuple):
    """An answer, its index and the twin's rows."""

    data: bytes
    indexed: Indexed
    rows: list[Row]

    @property
    def table(self) -> Any:
        return self.indexed.table


indexed_answers = answers.map(lambda data: Answer(data, batches.index(data), oracle.walk(data)[0]))
positions = st.sampled_from([0, 0, 1, 3, 41, 2**40, 2**63 - 1])
aborted_lists = st.lists(st.tuples(st.sampled_from([7, 8, 9]), st.integers(-1, 60)), max_size=4)
reason_lists = st.integers(0, 2**32).map(lambda seed: random.Random(seed).choices([0, 0, 0, 1, 5], k=200))


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def test_every_kernel_has_a_twin() -> None:
    assert set(kernels()) == TWINS


def test_everything_that_kernels_share_is_compared_by_itself() -> None:
    found: dict[str, set[str]] = {}
    for name, module in list(sys.modules.items()):
        for function in vars(module).values() if name.startswith(KERNELS) else ():
            is_own = isinstance(function, Dispatcher) and function.__module__ == name
            short = name.removeprefix(f"{KERNELS}.")
            if is_own and function.__name__[0] != "_" and f"{short}.{function.__name__}" not in TWINS:
                found.setdefault(short, set()).add(function.__name__)
    assert found == PARTS


header_lists = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=5)
headers_of_records = header_lists.map(lambda headers: oracle.tail(None, None, headers)[2:])
cut_headers = st.builds(lambda packed, cut: packed[: -cut or None], headers_of_records, st.integers(0, 3))


@compiled
def headers_in(data: Any, at: int, stop: int) -> Any:
    return decode_kernel.headers_in(data, at, stop)


@given(headers_of_records | cut_headers | st.binary(max_size=12))
def test_headers_in(packed: bytes) -> None:
    count, keys, values, nulls = headers_in(array(b"xx" + packed), 2, 2 + len(packed))
    found = oracle.fields(b"\x01\x01" + packed)
    if found is None:
        assert count == -1
        return
    headers = found[2]
    assert (count, keys, nulls) == (
        len(headers),
        sum(len(name) for name, _ in headers),
        sum(value is None for _, value in headers),
    )
    assert values == sum(len(value or b"") for _, value in headers)


@given(answers)
def test_walk(data: bytes) -> None:
    found = batches.index(data)
    assert (rows_of(found), found.fault, found.end) == oracle.walk(data)


@given(indexed_answers, positions, st.sets(st.sampled_from([7, 8, 9, 2**63 - 1])), aborted_lists)
def test_drop(answer: Answer, start: int, loops: set[int], aborted: list[tuple[int, int]]) -> None:
    table = np.array([(first, producer) for first, producer in sorted((f, p) for p, f in aborted)], np.int64)
    transactions = np.ascontiguousarray(table.reshape(-1, 2).T)
    known = batches.producers(loops)
    reasons, fault = select_kernel.drop(answer.indexed.data, answer.table, start, known, transactions)
    wanted, wanted_fault = oracle.drop(answer.data, answer.rows, start, loops, aborted)
    assert fault == wanted_fault
    assert reasons[: len(wanted)].tolist() == wanted


@given(indexed_answers, reason_lists, positions, st.booleans(), st.integers(-1, 4), st.integers(60, 400))
def test_classify(answer: Answer, reasons: list[int], start: int, broker_time: bool, codec: int, limit: int) -> None:
    reasons = reasons[: len(answer.rows)]
    codes = select_kernel.classify(answer.table, np.array(reasons, np.uint8), start, int(broker_time), codec, limit)
    assert codes.tolist() == oracle.classify(answer.rows, reasons, start, broker_time, codec, limit)


@given(indexed_answers, st.sets(st.sampled_from([-1, 7, 8, 2**63 - 1])))
def test_strangers(answer: Answer, known: set[int]) -> None:
    found, count = select_kernel.strangers(answer.table, batches.producers(known))
    assert count == len(set(found[:count].tolist()))
    assert set(found[:count].tolist()) == oracle.strangers(answer.rows, known)


@given(indexed_answers, reason_lists, reason_lists, st.integers(-1, 60), st.integers(60, 300), st.integers(60, 300))
def test_cut(answer: Answer, reasons: list[int], codes: list[int], until: int, small: int, packed: int) -> None:
    reasons, codes = reasons[: len(answer.rows)], codes[: len(answer.rows)]
    found, count, taken = stretches_kernel.cut(
        answer.table, np.array(reasons, np.uint8), np.array(codes, np.uint8), until, small, packed
    )
    got = [tuple(column) for column in found[:, :count].T.tolist()]
    assert (got, taken) == oracle.cut(answer.rows, reasons, codes, until, small, packed)


@given(indexed_answers, reason_lists, st.integers(0, 5), st.integers(0, 9))
def test_measure(answer: Answer, reasons: list[int], first: int, more: int) -> None:
    reasons = reasons[: len(answer.rows)]
    stop = min(first + more, len(answer.rows))
    got = pour_kernel.measure(answer.table, np.array(reasons, np.uint8), min(first, stop), stop)
    assert got == oracle.measure(answer.rows, reasons, min(first, stop), stop)


# ------------------------------------------------------------------------------------------------------ pouring


rooms = st.sampled_from([61, 62, 70, 100, 300, 5000])


@given(indexed_answers, positions, st.integers(0, 4), st.sampled_from([1, 2, UNLIMITED]), rooms, st.integers(1, 4))
def test_pour_records(answer: Answer, start: int, part: int, most: int, room: int, most_runs: int) -> None:
    for n, row in enumerate(answer.rows):
        payload = answer.data[row.start + 61 : row.start + row.size]
        if row.magic < 2 or row.codec:
            continue
        vessel = Vessel(room, most_runs)
        into = vessel.out, room, vessel.state, vessel.runs
        why, record = pour_kernel.pour_records(array(payload), 0, answer.table, n, start, part, most, *into)
        wanted = oracle.pour(row, payload, start=start, part=part, most=most, room=room, most_runs=most_runs)
        assert (why, record) == (wanted.why, wanted.record)
        vessel.check(wanted)


@given(indexed_answers, reason_lists, positions, rooms, st.integers(1, 9))
def test_pour_batches(answer: Answer, reasons: list[int], start: int, room: int, most_runs: int) -> None:
    reasons, vessel = reasons[: len(answer.rows)], Vessel(room, most_runs)
    flags = np.array(reasons, np.uint8)
    source = answer.indexed.data, answer.table, flags
    into = vessel.out, room, vessel.state, vessel.runs
    column, why = pour_kernel.pour_batches(*source, 0, len(answer.rows), start, *into)
    wanted = oracle.Poured(oracle.DONE, 0, [])
    for n, row in enumerate(answer.rows):
        if reasons[n]:
            continue
        if row.magic < 2 or row.codec:
            wanted = wanted._replace(why=oracle.CLOSED, record=n)
            break
        payload = answer.data[row.start + 61 : row.start + row.size]
        poured = oracle.pour(row, payload, wanted.found, start=start, room=room, most_runs=most_runs)
        if poured.why != oracle.DONE:
            wanted = wanted._replace(why=poured.why, record=n)
            break
        wanted = poured
    assert (column, why) == (len(answer.rows) if wanted.why == oracle.DONE else wanted.record, wanted.why)
    vessel.check(wanted)


@given(every_kind(), st.sampled_from(Codec), st.integers(0, 9))
def test_seal(made: tuple[Written, str], codec: Codec, less: int) -> None:
    batch, _ = made
    plain = Written(records=batch.records, base_offset=batch.base_offset, bits=batch.bits, max_time=batch.max_time)
    source = encode(plain)
    vessel = Vessel(len(source) + 200, 10)
    found = batches.index(source)
    into = vessel.out, vessel.room, vessel.state, vessel.runs
    assert pour_kernel.pour_records(array(source[61:]), 0, found.table, 0, 0, 0, UNLIMITED, *into)[0] == oracle.DONE
    records = oracle.records(Row(*found.table[:, 0].tolist()), source[61:]) or []
    size = int(vessel.state[pour_kernel.AT])
    before = vessel.out.tobytes()
    room = vessel.out[: size - less]
    sealed = pour_kernel.seal(room, size, vessel.state, int(codec), *WRITER)
    if less or not records:
        assert not sealed
        assert vessel.out.tobytes() == before
    else:
        assert vessel.out[:size].tobytes() == oracle.seal(before[61:size], records, int(codec), WRITER)
        assert vessel.out[size:].tobytes() == before[size:]


@given(indexed_answers, st.integers(-2, 30), st.integers(-30, 30))
def test_restamp(answer: Answer, before: int, more: int) -> None:
    for row in answer.rows:
        if row.magic != 2:
            continue
        batch = answer.data[row.start : row.start + row.size]
        margin = bytes(max(0, before))
        data = np.frombuffer(bytearray(margin + batch + margin), np.uint8)
        assert pass_through_kernel.restamp(data, len(margin), len(batch), *WRITER)
        assert data.tobytes() == margin + oracle.restamp(batch, WRITER) + margin
        start, size = before, len(data) + more
        if start < 0 or start + size > len(data):
            kept = data.tobytes()
            assert not pass_through_kernel.restamp(data, start, size, *WRITER)
            assert data.tobytes() == kept


@compiled
def parsed(data: Any, at: int, stop: int) -> Any:
    return pour_kernel.parse(data, at, stop)


@given(st.binary(max_size=40) | sound.map(lambda answer: answer[61:200]), st.integers(0, 50), st.integers(0, 9))
def test_parse(data: bytes, at: int, less: int) -> None:
    stop = max(0, len(data) - less)
    at = min(at, stop)
    body, time, delta, rest, end = parsed(array(data), at, stop)
    wanted = oracle.parse(data, at, stop)
    if wanted is None:
        assert end == -1
    else:
        assert (data[body], time, delta, data[rest:end], end) == wanted


# ------------------------------------------------------------------------------------------------------ magic 0, 1


messages = st.one_of(st.binary(max_size=80), from_seeds, st.sampled_from(SEEDS))


@given(messages, st.integers(0, 30), st.integers(0, 30))
def test_survey_and_value_of(data: bytes, at: int, less: int) -> None:
    stop = max(0, len(data) - less)
    at = min(at, stop)
    assert legacy_kernel.survey(array(data), at, stop) == oracle_old.survey(data, at, stop)
    assert legacy_kernel.value_of(array(data), at, stop) == oracle_old.value_of(data, at, stop)


@given(messages, st.sampled_from([0, 1, 2**40, 2**63 - 5]), st.tuples(*[st.integers(0, 1)] * 2), st.integers(-1, 2**62))
def test_convert(data: bytes, base: int, how: tuple[int, int], stamp: int) -> None:
    why, offset, out, facts = legacy_kernel.convert(array(data), 0, len(data), base, *how, stamp)
    wanted, wanted_offset, records = oracle_old.convert(data, 0, len(data), base, *how, stamp)
    assert (why, offset) == (wanted, wanted_offset)
    if why == legacy_kernel.DONE and records:
        first, times = records[0], [record.time for record in records]
        written = b"".join(record.encode(record.offset - first.offset, first.time) for record in records)
        assert facts.tolist() == [len(records), first.offset, offset, first.time, max(times), len(written)]
        assert out[: len(written)].tobytes() == written


@given(indexed_answers, reason_lists, st.integers(0, 300))
def test_together(answer: Answer, reasons: list[int], most: int) -> None:
    reasons = reasons[: len(answer.rows)]
    for first, row in enumerate(answer.rows):
        if row.magic < 2 and not row.codec:
            for stop in range(first + 1, len(answer.rows) + 1):
                got = legacy_kernel.together(answer.table, np.array(reasons, np.uint8), first, stop, most)
                assert got == oracle_old.together(answer.rows, reasons, first, stop, most)


def test_the_twins_number_things_as_the_kernels_do() -> None:
    faults = "SOUND BAD_LENGTH BAD_MAGIC BAD_CRC BAD_COUNT BAD_CODEC BAD_ORDER CUT_SHORT BAD_OLD_CRC"
    reasons = "KEPT BEFORE CONTROL EMPTY LOOP ABORTED TRIM THIN LOG_APPEND_TIME RECOMPRESS TOO_LARGE OLD_MAGIC"
    for module, names in (
        (index_kernel, faults),
        (select_kernel, reasons),
        (stretches_kernel, "LARGE SMALL OPEN"),
        (pour_kernel, "DONE FULL MORE_RUNS CLOSED DAMAGED"),
    ):
        assert {name: getattr(module, name) for name in names.split()} == {
            name: getattr(oracle, name) for name in names.split()
        }

"""Which batches go to the target, and which of these must be opened: the loops over the table.

Purpose: the decisions of ``select`` for thousands of batches at once.

Invariants: a batch gets exactly one reason for being dropped; aborted transactions are found as Java's consumer finds
them, in the order of the log, within one fetch answer.

References: org.apache.kafka.clients.consumer.internals.CompletedFetch (nextFetchedRecord, isBatchAborted,
consumeAbortedTransactionsUpTo, containsAbortMarker); org.apache.kafka.common.record.ControlRecordType.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import BYTES, FLAGS, LONG, LONGS, TABLE, inner, kernel
from sparkmirror.batches.kernels.varint import read
from sparkmirror.batches.kernels.words import short_at

KEPT, BEFORE, CONTROL, EMPTY, LOOP, ABORTED = 0, 1, 2, 3, 4, 5

PASS, TRIM, THIN, LOG_APPEND_TIME, RECOMPRESS, TOO_LARGE, OLD_MAGIC = 0, 1, 2, 4, 8, 16, 32

_START, _SIZE, _FIRST, _LAST, _COUNT = rows.START, rows.SIZE, rows.FIRST, rows.LAST, rows.COUNT
_ATTRIBUTES, _MAGIC, _PRODUCER = rows.ATTRIBUTES, rows.MAGIC, rows.PRODUCER
_HEADER, _CODEC, _ABORT = layout.HEADER, layout.CODEC_MASK, layout.ABORT
_TRANSACTIONAL, _CONTROL_BIT, _LOG_APPEND = layout.TRANSACTIONAL, layout.CONTROL, layout.LOG_APPEND_TIME


@inner
def _holds(ordered, value):
    """Whether an ascending array holds a value."""
    low, high = 0, ordered.shape[0]
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < ordered.shape[0] and ordered[low] == value


@inner
def _find(active, count, producer):
    for i in range(count):
        if active[i] == producer:
            return i
    return -1


@inner
def _marker(data, start, stop):
    """The type of the control record at ``start`` (0 abort, 1 commit, others), or -1 when it cannot be read."""
    at = start
    for field in range(5):  # length, attributes, timestamp delta, offset delta, key length
        if field == 1:
            at += 1
            continue
        value, at = read(data, at, stop)
        if at < 0:
            return -1
    if value < 4 or value > stop - at or short_at(data, at) < 0:
        return -1
    return short_at(data, at + 2)


@inner
def _reason(table, n, from_offset, loops):
    if table[_LAST, n] < from_offset:
        return BEFORE
    if table[_ATTRIBUTES, n] & _CONTROL_BIT and table[_MAGIC, n] == 2:
        return CONTROL
    if table[_COUNT, n] == 0:
        return EMPTY
    if loops.shape[0] > 0 and table[_PRODUCER, n] >= 0 and _holds(loops, table[_PRODUCER, n]):
        return LOOP
    return KEPT


@kernel(BYTES, TABLE, LONG, LONGS, TABLE)
def drop(data, table, from_offset, loops, aborted):
    """Decides for each batch whether and why it is dropped.

    Args:
        data: the buffer.
        table: as ``kernels.index.walk`` gives it.
        from_offset: the position; batches that end below it have been copied before.
        loops: ascending producer ids whose batches came from the target.
        aborted: two rows, the first offset (ascending) and the producer id of each aborted transaction.

    Returns:
        (reasons, fault): uint8 per batch, ``KEPT`` or the reason for dropping it; the column of a control batch whose
        record cannot be read though it matters, or -1.
    """
    batches, transactions = table.shape[1], aborted.shape[1]
    reasons = np.empty(batches, np.uint8)
    active = np.empty(transactions, np.int64)
    open_, seen = 0, 0
    for n in range(batches):
        reasons[n] = _reason(table, n, from_offset, loops)
        producer = table[_PRODUCER, n]
        if transactions == 0 or producer < 0:
            continue
        while seen < transactions and aborted[0, seen] <= table[_LAST, n]:
            if _find(active, open_, aborted[1, seen]) < 0:
                active[open_] = aborted[1, seen]
                open_ += 1
            seen += 1
        place = _find(active, open_, producer)
        if place < 0:
            continue
        attributes = table[_ATTRIBUTES, n]
        if attributes & _CONTROL_BIT:
            begin = table[_START, n]
            kind = _marker(data, begin + _HEADER, begin + table[_SIZE, n]) if table[_COUNT, n] > 0 else 1
            if kind < 0 or attributes & _CODEC:
                return reasons, n
            if kind == _ABORT:
                open_ -= 1
                active[place] = active[open_]
        elif attributes & _TRANSACTIONAL and reasons[n] == KEPT:
            reasons[n] = ABORTED
    return reasons, -1


@kernel(TABLE, FLAGS, LONG, LONG, LONG, LONG)
def classify(table, reasons, from_offset, log_append_time, codec, limit):
    """Says for each kept batch what keeps it from passing through as it is.

    Args:
        table: as ``kernels.index.walk`` gives it.
        reasons: as ``drop`` gives them.
        from_offset: the position.
        log_append_time: 1 when the target topic sets the time itself, else 0.
        codec: the codec that every batch shall have, or -1 to leave them as they are.
        limit: the target topic's max.message.bytes.

    Returns:
        uint8 per batch: 0, or the sum of what is the matter. 0 for batches that are dropped.
    """
    codes = np.zeros(table.shape[1], np.uint8)
    for n in range(table.shape[1]):
        if reasons[n] != KEPT:
            continue
        attributes, code = table[_ATTRIBUTES, n], PASS
        if table[_MAGIC, n] < 2:
            codes[n] = OLD_MAGIC
            continue
        if table[_FIRST, n] < from_offset:
            code |= TRIM
        if table[_COUNT, n] != table[_LAST, n] - table[_FIRST, n] + 1:
            code |= THIN
        if attributes & _LOG_APPEND and log_append_time == 0:
            code |= LOG_APPEND_TIME
        if codec >= 0 and (attributes & _CODEC) != codec:
            code |= RECOMPRESS
        if table[_SIZE, n] > limit:
            code |= TOO_LARGE
        codes[n] = code
    return codes


@kernel(TABLE, LONGS)
def strangers(table, known):
    """Finds the producer ids of the batches that are not in the ascending array ``known``.

    Returns:
        (found, count): an array that begins with them, each once, unordered; how many they are.
    """
    found = np.empty(table.shape[1], np.int64)
    count, last = 0, np.int64(-1)
    for n in range(table.shape[1]):
        producer = table[_PRODUCER, n]
        if producer < 0 or producer == last:
            continue
        last = producer
        if not _holds(known, producer) and _find(found, count, producer) < 0:
            found[count] = producer
            count += 1
    return found, count

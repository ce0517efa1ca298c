"""Which tasks a Kafka Connect worker runs, as its group's coordinator keeps it.

    assignment   INT16 version, INT16 error, STRING leader, STRING leader's URL, INT64 offset in the topic of
                 configurations, ARRAY of (STRING connector, ARRAY of INT32 task), and more that is not read;
                 task -1 is the connector itself
    metadata     INT16 version, STRING URL, INT64 offset in the topic of configurations; from version 1 on BYTES, which
                 are an assignment: what the worker ran already when it joined

From version 1 on an assignment says only what is new to the worker, so both count. What it takes from the worker counts
too, until the worker has given it back and joined again.

Invariant: what is no such record is refused, never read as a worker that runs nothing.

References: ``ConnectProtocol``, ``IncrementalCooperativeConnectProtocol`` (KIP-415).
"""

from __future__ import annotations

from collections import defaultdict

from sparkmirror.mm2.types import read_int16, read_int32, read_int64, read_string

COOPERATIVE = 1

_OF_ASSIGNMENT = (read_int16, read_int16, read_string, read_string, read_int64)

Tasks = dict[str, set[int]]
"""By connector, without those connectors of which a worker runs none."""


def read_worker(metadata: bytes, assignment: bytes) -> Tasks:
    """The tasks of one worker.

    Args:
        metadata: with which it joined its group.
        assignment: what it was given then; empty for nothing.

    Raises:
        ValueError: one of them is not Connect's.
    """
    held = defaultdict(set, _read_held(metadata))
    for connector, tasks in _read_assignment(assignment).items():
        held[connector] |= tasks
    return dict(held)


def _read_held(buffer: bytes) -> Tasks:
    version, offset = read_int16(buffer, 0)
    for read in (read_string, read_int64):
        offset += read(buffer, offset)[1]
    if version < COOPERATIVE:
        return {}
    length, size = read_int32(buffer, offset)
    offset += size
    if length > len(buffer) - offset:
        raise ValueError(f"an assignment of {length} bytes at byte {offset} of {len(buffer)}")
    return _read_assignment(buffer[offset : offset + max(0, length)])


def _read_assignment(buffer: bytes) -> Tasks:
    if not buffer:
        return {}
    offset = 0
    for read in _OF_ASSIGNMENT:
        offset += read(buffer, offset)[1]
    found: Tasks = defaultdict(set)
    count, size = read_int32(buffer, offset)
    offset += size
    for _ in range(count):  # -1, an array that is not there, is none
        connector, size = read_string(buffer, offset)
        tasks, more = _read_numbers(buffer, offset + size)
        offset += size + more
        found[connector] |= {task for task in tasks if task >= 0}
    return {connector: tasks for connector, tasks in found.items() if tasks}


def _read_numbers(buffer: bytes, offset: int) -> tuple[list[int], int]:
    count, size = read_int32(buffer, offset)
    found = []
    for _ in range(count):
        number, more = read_int32(buffer, offset + size)
        found.append(number)
        size += more
    return found, size

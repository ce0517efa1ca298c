"""What a Kafka Connect worker runs, as its group's coordinator keeps it.

    INT16 version, INT16 error, STRING leader, STRING leader's URL, INT64 offset in the topic of configurations,
    ARRAY of (STRING connector, ARRAY of INT32 task), and more that is not read; task -1 is the connector itself

Invariant: what is no such assignment is refused, never read as a worker that runs nothing.

References: ``ConnectProtocol.CONNECT_PROTOCOL_V0``, ``IncrementalCooperativeConnectProtocol`` (KIP-415), whose
assignments have the same beginning.
"""

from __future__ import annotations

from sparkmirror.mm2.types import read_int16, read_int32, read_int64, read_string

_HEADER = (read_int16, read_int16, read_string, read_string, read_int64)


def read_tasks(buffer: bytes) -> dict[str, tuple[int, ...]]:
    """The tasks that a worker runs, by connector; without those connectors of which it runs none.

    Args:
        buffer: a member's assignment; empty while the worker has none.

    Raises:
        ValueError: it is no assignment of Connect's.
    """
    if not buffer:
        return {}
    offset = 0
    for read in _HEADER:
        offset += read(buffer, offset)[1]
    found: dict[str, tuple[int, ...]] = {}
    count, size = read_int32(buffer, offset)
    offset += size
    for _ in range(count):  # -1, an array that is not there, is none
        connector, size = read_string(buffer, offset)
        offset += size
        tasks, size = _numbers(buffer, offset)
        offset += size
        found[connector] = (*found.get(connector, ()), *(task for task in tasks if task >= 0))
    return {connector: tasks for connector, tasks in found.items() if tasks}


def _numbers(buffer: bytes, offset: int) -> tuple[tuple[int, ...], int]:
    count, size = read_int32(buffer, offset)
    found = []
    for _ in range(count):
        number, more = read_int32(buffer, offset + size)
        found.append(number)
        size += more
    return tuple(found), size

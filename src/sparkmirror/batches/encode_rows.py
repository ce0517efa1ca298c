"""The columns of an Arrow table as the arrays that ``kernels.encode`` reads.

Purpose: every kind of column that can be meant becomes one kind of array; the rest is refused by name.

Invariants:
    - Strings are not copied, except those of dictionaries and views, which Arrow writes out.
    - A slice is looked at and not the array that it was cut from: a table in many pieces costs no more than whole.
    - Arrays are read-only, since the kernel is compiled for such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sparkmirror.batches import columns
from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels.encode import Rows, Strings

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN: Final = (
    columns.OFFSET,
    columns.TIMESTAMP,
    columns.TIMESTAMP_TYPE,
    columns.KEY,
    columns.VALUE,
    columns.HEADERS,
)
_NEEDED: Final = (columns.TIMESTAMP, columns.VALUE)
_NO_TIMESTAMP: Final = -1


def check_names(names: list[str]) -> None:
    """Looks at the names of a table's columns.

    Raises:
        ValueError: a column is missing, unknown or there twice.
    """
    unknown = [name for name in names if name not in _KNOWN]
    missing = [name for name in _NEEDED if name not in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    for what, found in (("unknown columns", unknown), ("missing columns", missing), ("columns twice", twice)):
        if found:
            raise ValueError(f"the table has {what}: {', '.join(found)}; a record has {', '.join(_KNOWN)}")


def rows_of(part: pa.RecordBatch) -> Rows:
    """The columns of a piece of a table, whose names ``check_names`` has found right.

    Raises:
        ValueError: a column is of a type that cannot be meant, or contradicts itself.
    """
    import pyarrow as pa

    part.validate()
    nulls = pa.nulls(part.num_rows)
    given = dict(zip(part.schema.names, part.columns, strict=True))
    header_ends, header_there, header_key, header_value = _headers(given.get(columns.HEADERS, nulls))
    return Rows(
        timestamp=_timestamps(given[columns.TIMESTAMP]),
        key=_strings(given.get(columns.KEY, nulls), columns.KEY),
        value=_strings(given[columns.VALUE], columns.VALUE),
        header_ends=header_ends,
        header_there=header_there,
        header_key=header_key,
        header_value=header_value,
    )


def _timestamps(array: pa.Array) -> Longs:
    import pyarrow as pa

    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_null(kind)):
        raise ValueError(f"column timestamp: {kind} is neither milliseconds nor moments")
    if pa.types.is_timestamp(kind):
        array = _cast(array, pa.timestamp("ms", kind.tz), columns.TIMESTAMP)
    array = _cast(array, pa.int64(), columns.TIMESTAMP)
    if array.null_count:
        array = array.fill_null(_NO_TIMESTAMP)
    return _longs(array.buffers()[1], array.offset, len(array))


def _cast(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        raise ValueError(f"column {name}: {array.type} does not become {kind}: {error}") from None


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    of_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    of_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(of_bytes or of_text or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind))


def _strings(array: pa.Array, name: str) -> Strings:
    import pyarrow as pa

    if not _is_bytes(array.type):
        raise ValueError(f"column {name}: {array.type} is neither bytes nor text")
    wide = _cast(array, pa.large_binary(), name)
    _, ends, data = wide.buffers()
    return Strings(data=_bytes(data), ends=_ends(ends, wide.offset, len(wide)), there=_there(wide))


def _headers(array: pa.Array) -> tuple[Longs, Bytes, Strings, Strings]:
    """Headers taken apart: where each row's end, which rows have any, keys, values."""
    import pyarrow as pa

    name, kind = columns.HEADERS, array.type
    if pa.types.is_null(kind):
        none = _strings(pa.nulls(0), name)
        return _sealed(np.zeros(len(array) + 1, np.int64)), _there(pa.nulls(0)), none, none
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind)):
        raise ValueError(f"column headers: {kind} is not a list of key and value")
    ends = np.asarray(array.offsets).astype(np.int64)
    first, pairs = int(ends[0]), array.values
    pairs = pairs.slice(max(0, first), max(0, int(ends[-1]) - first))
    keys, values = _pair(pairs, by_place=pa.types.is_map(kind))
    if pairs.null_count or (keys.null_count and not columns.may_be_packed(pairs.type)):
        raise ValueError("column headers: a header without a key")
    return _sealed(ends - first), _there(array), _strings(keys, name), _strings(values, name)


def _pair(pairs: pa.StructArray, *, by_place: bool) -> tuple[pa.Array, pa.Array]:
    import pyarrow as pa

    kind = pairs.type
    if by_place:
        return pairs.field(0), pairs.field(1)
    if not pa.types.is_struct(kind) or sorted(each.name for each in kind) != [columns.KEY, columns.VALUE]:
        raise ValueError(f"column headers: {kind} is not a struct of key and value")
    return pairs.field(columns.KEY), pairs.field(columns.VALUE)


def _sealed(array: npt.NDArray[np.int64]) -> Longs:
    array.flags.writeable = False
    return array


def _longs(buffer: pa.Buffer, offset: int, count: int) -> Longs:
    """Part of a buffer of int64, copied only if Arrow's memory is not aligned."""
    if not count:
        return _sealed(np.empty(0, np.int64))
    found = np.frombuffer(buffer, np.int64, count=count, offset=8 * offset)
    return _sealed(np.require(found, requirements="A"))


def _ends(buffer: pa.Buffer | None, offset: int, count: int) -> Longs:
    """The ends of a column of strings; Arrow may leave those of an empty one out."""
    return _longs(buffer, offset, count + 1) if count else _sealed(np.zeros(1, np.int64))


def _bytes(buffer: pa.Buffer | None) -> Bytes:
    found = np.frombuffer(b"" if buffer is None else buffer, np.uint8)
    found.flags.writeable = False
    return found


def _there(array: pa.Array) -> Bytes:
    """A byte per entry, 0 for null; nothing when none is null."""
    if not array.null_count:
        return _bytes(None)
    begin, skip = divmod(array.offset, 8)
    bits = np.frombuffer(array.buffers()[0], np.uint8, offset=begin)
    flags = np.unpackbits(bits, bitorder="little", count=skip + len(array))[skip:]
    flags.flags.writeable = False
    return flags

"""What headers hold, against the packing of the tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches.kernels import decode
from tests.batches import oracle
from tests.batches.building import compiled

NOTHING = oracle.tail(None, None, [])[:-1]
HEADERS = st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=200)), max_size=70)


@compiled
def headers_in(data: Any, at: int, stop: int) -> Any:
    return decode.headers_in(data, at, stop)


@given(HEADERS, st.integers(0, 3))
def test_headers_are_weighed_where_they_end(headers: list[tuple[str, bytes | None]], before: int) -> None:
    packed = oracle.tail(None, None, headers).removeprefix(NOTHING)
    data = np.frombuffer(bytes(before) + packed + b"\0", np.uint8)
    stop = before + len(packed)
    keys, contents = sum(len(name.encode()) for name, _ in headers), [content for _, content in headers]
    values, nulls = sum(len(content) for content in contents if content is not None), contents.count(None)
    assert headers_in(data, before, stop) == (len(headers), keys, values, nulls)
    assert headers_in(data, before, stop + 1)[0] == -1
    assert headers_in(data, before, stop - 1)[0] == -1

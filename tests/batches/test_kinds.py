"""No kind of batch is refused: what a log may hold goes through everything that ``batches/`` exports, and comes back.

``Trial`` leads a case through index, keep, needs, stretches, merge, rewrite, decode and encode, and through a lane's
intake, and compares each step with plain Python; here it gets sound logs, so nothing may be refused either.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from tests.batches import oracle
from tests.batches.building import Rec, Written
from tests.batches.fuzzing.case import USUAL, Case, Setting
from tests.batches.fuzzing.seeds import seeds
from tests.batches.fuzzing.trial import Trial
from tests.batches.kinds import LAST_DELTA, NOW, OLD_CODECS, encode, logs_of_every_kind, message, wrapper
from tests.batches.streams import STREAMS

FORMS = [(codec, form) for codec, forms in STREAMS.items() for form in forms]

wishes = st.builds(
    Setting,
    broker_time=st.booleans(),
    codec=st.sampled_from([-1, *Codec]),
    batch_size=st.sampled_from([100, 300, 1 << 20]),
    sequence=st.sampled_from([0, 2**31 - 3]),
)


def refusals(data: bytes, setting: Setting = USUAL) -> list[str]:
    """What was refused of an answer on its way through everything."""
    return [fact for fact in Trial(Case(data=data, setting=setting)).run() if "Error: " in fact]


@settings(max_examples=300)
@given(logs_of_every_kind(), wishes, st.integers(0, 6))
def test_every_kind_of_batch_goes_through(log: list[tuple[Written, str]], asked: Setting, into: int) -> None:
    setting = replace(asked, start=log[0][0].base_offset + into)
    assert refusals(b"".join(encode(batch, stream) for batch, stream in log), setting) == []


@pytest.mark.parametrize(("codec", "form"), FORMS)
def test_every_form_of_a_stream_goes_through(codec: Codec, form: str) -> None:
    records = tuple(Rec(2 * i, NOW + i, None if i % 3 else b"k", b"%d" % i * 40, (("h", None),)) for i in range(30))
    data = encode(Written(records=records, codec=codec, last_delta=70), form)
    for wanted in (-1, *Codec):
        assert refusals(data, Setting(codec=wanted, start=5)) == []


_keys = st.none() | st.binary(max_size=9)
_old_records = st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 2**62), _keys, _keys), min_size=1, max_size=5)


@given(_old_records, st.sampled_from([0, 1]), st.sampled_from(OLD_CODECS), st.booleans(), wishes, st.integers(0, 6))
def test_every_kind_of_old_message_goes_through(
    made: list[tuple[int, int, bytes | None, bytes | None]],
    magic: int,
    codec: Codec,
    stamped: bool,
    asked: Setting,
    into: int,
) -> None:
    offset, records = 40, []
    for step, time, key, value in made:
        records.append(Rec(offset - 40, time, key, value))
        offset += step
    if codec is Codec.NONE:
        data = b"".join(message(magic, 40 + r.offset, r.time, r.key, r.value) for r in records)
    else:
        data = wrapper(magic, codec, records, base_offset=40, time=NOW if stamped else None)
    following = encode(Written(records=(Rec(0, NOW),), base_offset=offset + 3))
    assert refusals(data + following, replace(asked, start=40 + into)) == []


def test_the_answers_that_the_fuzz_starts_from_are_sound() -> None:
    refused = {fact for data in seeds() for fact in refusals(data)}
    assert refused == set()


@pytest.mark.parametrize("less", [0, 1, 2])
@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_exactly_at_the_limit_is_not_opened(codec: Codec, less: int) -> None:
    batch = encode(Written(records=tuple(Rec(i, NOW, b"k", b"value") for i in range(9)), codec=codec))
    facts = Trial(Case(data=batch, setting=Setting(limit=len(batch) - less, batch_size=62))).run()
    assert ("needs TOO_LARGE" in facts) == (less > 0)
    assert ("merge: passed" in facts) == (less == 0)


def test_the_widest_batch_there_can_be_goes_through() -> None:
    """Offsets as far apart as one batch can have them, behind the greatest offset but one that a log can have."""
    records = (Rec(0, 2**63 - 1), Rec(1, -(2**63)), Rec(LAST_DELTA, -1, None, None))
    for base in (0, oracle.LAST - 1 - LAST_DELTA):
        assert refusals(encode(Written(records=records, base_offset=base))) == []

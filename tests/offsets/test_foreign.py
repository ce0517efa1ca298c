"""What others wrote to a topic of mirrors: counted, told of once for each kind, and forgotten."""

from __future__ import annotations

from sparkmirror.offsets.foreign import LONGEST, MOST_KEYS, Broken, Flaw, Foreign, told_of

PLACE = "cluster B, t-0"


def test_a_kind_is_one_line_with_the_newest_place_and_the_remedy():
    foreign = Foreign()
    assert foreign.note("garbage", 7, Flaw.KEY)
    assert not foreign.note("more", 9, Flaw.KEY)
    assert foreign.note('["life"]', 10, Flaw.VALUE)
    first, second = foreign.lines(PLACE)
    assert first.startswith(
        "cluster B, t-0 holds 2 records with keys that no mirror writes, the last at offset 9, key more"
    )
    assert "holds a record with values that no mirror writes, the last at offset 10" in second
    assert all("a record without a value under that key removes it" in line for line in (first, second))


def test_what_is_written_again_counts_once_and_a_tombstone_takes_it_away():
    foreign = Foreign()
    for offset in range(3):
        foreign.note("garbage", offset, Flaw.KEY)
    assert len(foreign) == 1
    foreign.forget("garbage")
    foreign.forget("never there")
    assert (len(foreign), foreign.lines(PLACE)) == (0, ())


def test_a_line_names_a_record_that_is_still_there():
    foreign = Foreign()
    for offset in range(3):
        foreign.note(f"key {offset}", offset, Flaw.KEY)
    foreign.forget("key 2")
    assert "holds 2 records with keys that no mirror writes, the last at offset 1, key key 1" in foreign.lines(PLACE)[0]


def test_many_and_long_keys_take_no_memory():
    foreign = Foreign()
    for number in range(3 * MOST_KEYS):
        foreign.note(f"{number}" + "x" * 10_000, number, Flaw.KEY)
    assert len(foreign) == 3 * MOST_KEYS
    assert len(foreign.lines(PLACE)[0]) < LONGEST + 300


def test_our_own_that_cannot_be_read_are_told_of_with_the_first_place():
    assert told_of(PLACE, {}) == ""
    told = told_of(PLACE, {"a": Broken(3, "why"), "b": Broken(5, "no")})
    assert told.startswith("cluster B, t-0 at offset 3 (and 1 more): why: somebody has overwritten")

from __future__ import annotations

import pytest

from sparkmirror.lab.chaos.accounts import SESSION, Entry, Moved, Standing, compared, key_of, moved
from sparkmirror.lab.tally import Tally

HERE = [Entry(0, 1), Entry(1, 2), Entry(4, 3), Entry(5, 4)]
THERE = [Entry(10, 1), Entry(11, 2), Entry(12, 3)]


@pytest.mark.parametrize(
    ("here", "there", "found"),
    [
        (0, 10, Moved(0, 0)),
        (1, 11, Moved(0, 0)),
        (2, 12, Moved(0, 0)),
        (4, 12, Moved(0, 0)),
        (4, 11, Moved(1, 0)),
        (5, 10, Moved(3, 0)),
        (4, 13, Moved(0, 1)),
        (0, 13, Moved(0, 3)),
        (6, 13, Moved(0, 0)),
    ],
)
def test_a_group_is_where_it_was_or_so_many_records_from_it(here, there, found):
    assert moved(HERE, THERE, Standing(here=here, there=there)) == found


def test_records_of_one_side_only_count_for_no_group():
    assert moved(HERE, [], Standing(here=4, there=0)) == Moved(0, 0)
    assert moved(HERE[:2], [*THERE, Entry(13, 9)], Standing(here=2, there=12)) == Moved(0, 0)


def test_what_has_to_be_there_is_what_was_born_there_below_the_limit_and_not_left_out():
    mine, other = {0}, SESSION + 1
    here = [*HERE, Entry(6, other)]
    assert compared(here, THERE, mine, below=5) == Tally(records=3)
    assert compared(here, THERE, mine, below=6) == Tally(records=4, lost=1)
    assert compared(here, THERE, mine, below=6, left_out=[range(5, 6)]) == Tally(records=3)
    assert compared(here, [*THERE, Entry(13, 4)], mine, below=5) == Tally(records=3, foreign=1)
    assert compared(here, [*THERE, Entry(13, 3)], mine, below=5) == Tally(records=3, repeated=1)
    assert compared(here, [THERE[1], THERE[0], THERE[2]], mine, below=5) == Tally(records=3, reordered=1)
    assert compared(here, [*THERE, Entry(13, other)], mine, below=5) == Tally(records=3)


def test_of_a_compacted_log_the_newest_of_each_key_has_to_be_there():
    old, new, single = 1, 41, 2
    assert key_of(old) == key_of(new)
    here = [Entry(5, single), Entry(9, new)]
    there = [Entry(0, old), Entry(1, single), Entry(2, new)]

    def counted(found: list[Entry], left_out: range = range(0)) -> Tally:
        return compared(here, found, {0}, below=100, left_out=[left_out], compacted=True)

    assert counted(there).clean
    assert counted(there[1:]).clean
    assert counted(there[:2]).lost == 1
    assert counted([*there, Entry(3, new)]).repeated == 1
    assert counted([there[2], there[1]]).reordered == 1
    assert counted(there, range(9, 10)).foreign == 1

"""What an internal topic says as a whole, whichever records compaction has left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.duty_records import AclRecord
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.records import STOPPED_KEY, FlowRecord, Later, Life, Progress, Stopped
from sparkmirror.offsets.segments import Segments
from sparkmirror.offsets.state import JournalState, state_of

PLACE = TopicPartition("orders", 1)
WRITER = Writer(producer_id=7, epoch=1)
FLOW = FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="n", generation=2)


def progress(generation: int, epoch: int, position: int, partition: TopicPartition = PLACE) -> Progress:
    return Progress(
        partition=partition,
        writer=Writer(producer_id=7, epoch=epoch),
        generation=generation,
        position=position,
        next_sequence=0,
    )


_histories = st.lists(
    st.builds(
        lambda epoch, position, partition: progress(epoch // 2, epoch, position, partition),
        st.integers(0, 5),
        st.integers(0, 20),
        st.sampled_from([PLACE, TopicPartition("t", 0)]),
    ),
    max_size=12,
)


def compacted(history: Sequence[Progress]) -> list[Progress]:
    """What the log cleaner leaves: the last record of each key, in its place."""
    last = {record.key: number for number, record in enumerate(history)}
    return [record for number, record in enumerate(history) if last[record.key] == number]


@pytest.mark.parametrize("late", [False, True])
def test_progress_of_what_a_former_leader_has_not_is_none_of_the_last_record(late):
    """The next epoch names another one that it came after: the batches in between are gone with their leader."""
    gone = replace(progress(1, 2, 21), sequence=7, source=20, target=18, first=(12, 11))
    newest = replace(progress(2, 3, 21), before=(17, 20, 17))
    state = state_of([newest, gone] if late else [gone, newest])
    assert state.last(PLACE) is None
    assert (state.progress[PLACE].source, state.outdated) == (NO_OFFSET, {gone.key})
    assert not len(state.map_of(PLACE).pieces_of(gone.writer).targets)
    kept = state_of([gone, replace(newest, before=(7, 20, 18))])
    assert kept.last(PLACE) == gone


@given(_histories)
def test_the_greatest_order_wins_whatever_the_order_in_the_log(history: list[Progress]):
    state = state_of(history)
    for place, newest in state.progress.items():
        assert newest.order == max(record.order for record in history if record.partition == place)
    assert set(state.progress) == {record.partition for record in history}


@pytest.mark.parametrize("first", ["progress", "inherited"])
@pytest.mark.parametrize(
    ("source_id", "target_id", "counts"),
    [("s", "t", True), ("", "", True), ("other", "t", False), ("s", "other", False)],
)
def test_what_mirror_maker_copied_counts_while_the_topics_are_the_same(first, source_id, target_id, counts):
    """In whatever order compaction has left the two records; older brokers tell no ids."""
    inherited = Inherited(partition=PLACE, spans=((0, 10),), end=10, source_id="s", target_id="t")
    newest = replace(progress(2, 1, 20), topic_id=source_id, target_id=target_id)
    records: list[Inherited | Progress] = [inherited, newest] if first == "inherited" else [newest, inherited]
    assert state_of(records).inherited == ({PLACE: inherited} if counts else {})


@given(_histories)
def test_compaction_changes_nothing(history: list[Progress]):
    assert state_of(compacted(history)).progress == state_of(history).progress


@given(_histories)
def test_outdated_keys_can_be_deleted_without_changing_what_is_known(history: list[Progress]):
    left = compacted(history)
    state = state_of(left)
    assert not {record.key for record in state.progress.values()} & state.outdated
    assert state_of(record for record in left if record.key not in state.outdated).progress == state.progress
    for key in tuple(state.outdated):
        state.forget(key)
    assert state.outdated == set()


def test_of_one_writer_the_last_wins_even_where_it_went_back():
    first, second = progress(1, 1, 5), progress(1, 1, 4)
    assert state_of([first, second]).progress[PLACE] is second


LAST = replace(progress(1, 1, 10), next_sequence=10, sequence=9, source=9, target=19)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"position": 10}, (9, 19)),
        ({"position": 12}, (9, 19)),
        ({"position": 9}, (-1, -1)),
        ({"position": 10, "topic_id": "new"}, (9, 19)),
        ({"position": 10, "target_id": "other"}, (-1, -1)),
    ],
)
def test_an_epoch_that_has_sent_nothing_has_the_last_record_of_the_one_before_unless_it_went_back(changes, place):
    last = replace(LAST, target_id="id")
    newest = state_of([last, replace(progress(2, 2, 0), **changes)]).progress[PLACE]
    assert (newest.source, newest.target) == place


def test_a_record_of_a_later_release_stays_known_until_it_is_gone():
    state = state_of([])
    state.take(Later('["flow"]', 2))
    assert state.later == {'["flow"]': 2}
    state.forget('["flow"]')
    assert not state.later


def test_a_record_of_an_old_lane_does_not_count():
    newer, zombie = progress(2, 5, 100), progress(1, 4, 900)
    state = state_of([newer, zombie])
    assert state.progress[PLACE] == newer
    assert state.outdated == {zombie.key}


def test_flow_life_and_segments_are_kept_as_written_last():
    life = Life(generation=2, time_ms=5, state="running", lanes=1)
    segment = Segments(partition=PLACE, writer=WRITER, sequence=0, source=0)
    state = state_of([replace(FLOW, generation=1), FLOW, replace(life, time_ms=1), life, segment, segment])
    assert (state.flow, state.life) == (FLOW, life)
    assert len(state.map_of(PLACE)) == 1


def test_a_clean_end_holds_until_it_is_tombstoned():
    ended = Stopped(generation=2, time_ms=9)
    state = state_of([FLOW, ended])
    assert state.stopped is ended
    state.forget(STOPPED_KEY)
    assert state.stopped is None


def test_what_a_run_left_in_doubt_stays_so_until_a_later_one_puts_it_on_record():
    old, other = progress(1, 0, 5), progress(2, 0, 5, TopicPartition("t", 9))
    ran = state_of([FLOW, old, other])
    assert not ran.ended_cleanly
    assert set(ran.in_doubt()) == {PLACE, other.partition}, "all of a run that died, and of those before it"
    ended = replace(FLOW, generation=3), Stopped(generation=3, time_ms=9, exact_after=1)
    stopped = state_of([old, other, *ended])
    assert stopped.ended_cleanly
    assert stopped.in_doubt() == [PLACE], "what the clean run had of it is exact, what it never had is not"
    again = replace(FLOW, generation=4), Stopped(generation=4, time_ms=10)
    assert state_of([old, other, *again]).in_doubt() == []


def test_nothing_is_in_doubt_of_a_flow_that_never_copied():
    assert state_of([]).exact_after == 0
    assert state_of([]).ended_cleanly


def test_segments_that_progress_names_and_that_are_not_on_record_are_lost():
    first, newest = (Segments(partition=PLACE, writer=WRITER, sequence=at, source=at) for at in (0, 8))
    known = replace(progress(1, 1, 5), writer=WRITER, ahead=8)
    assert state_of([first, known]).lacks_ahead(PLACE)
    assert not state_of([first, newest, known]).lacks_ahead(PLACE)
    assert not state_of([first, replace(known, ahead=-1)]).lacks_ahead(PLACE), "all that is on record is acknowledged"
    assert not state_of([first]).lacks_ahead(PLACE)


def test_a_tombstone_removes_a_segment():
    kept, gone = (Segments(partition=PLACE, writer=WRITER, sequence=n, source=n) for n in (0, 5))
    state = state_of([kept, gone])
    state.forget(gone.key)
    pieces = state.maps[PLACE].pieces(WRITER)
    assert pieces is not None
    assert [block.offset for _, block in pieces.sources.blocks()] == [0]


def test_a_tombstone_removes_the_progress_of_its_writer_only():
    newer, older = progress(2, 5, 100), progress(1, 4, 900)
    state = state_of([older, newer])
    state.forget(older.key)
    assert state.progress == {PLACE: newer}
    state.forget(newer.key)
    assert state.progress == {}


@pytest.mark.parametrize(
    "key", ['["segments"]', '["progress","t",0,1]', "no key", '["segments","t",0,1,1,1]', "[]", "7"]
)
def test_a_tombstone_of_what_is_not_there_does_nothing(key: str):
    state = JournalState()
    state.forget(key)
    assert state == JournalState()


def test_every_writer_epoch_is_told_of_that_any_record_names():
    state = state_of(
        [
            progress(1, 1, 5),
            replace(progress(1, 2, 6), sequence=0, source=5, target=5),
            progress(2, 3, 6),
            Segments(partition=PLACE, writer=replace(WRITER, epoch=9), sequence=0, source=0),
            Stopped(generation=2, time_ms=0, writers=(replace(WRITER, producer_id=8),)),
        ]
    )
    epochs = {(writer.producer_id, writer.epoch) for writer in state.writers()}
    assert epochs == {(7, 1), (7, 2), (7, 3), (7, 9), (8, 1)}


def test_an_empty_topic_says_nothing():
    assert state_of([]) == JournalState()


def test_a_binding_is_on_record_until_its_tombstone():
    record = AclRecord(
        binding=("TOPIC", "A.orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"), time_ms=1_700_000_000_000
    )
    state = state_of([record])
    assert state.acls == {'["acl","TOPIC","A.orders","LITERAL","User:alice","*","READ","ALLOW"]': record}
    state.forget(record.key)
    assert state.acls == {}


BEFORE = replace(FLOW, generation=1), Stopped(generation=1, time_ms=9)


@pytest.mark.parametrize("before", [BEFORE, BEFORE[:1], ()], ids=["ended", "killed", "nothing"])
@pytest.mark.parametrize("of_it", [progress(2, 1, 5), Life(generation=2, time_ms=9, state="running", lanes=1)])
def test_a_run_of_which_the_topic_has_lost_the_start_has_not_ended_and_all_before_it_is_in_doubt(before, of_it):
    """The end of an earlier run vouches for nothing that came later."""
    older = progress(1, 0, 5, TopicPartition("t", 9))
    state = state_of([older, *before, of_it])
    assert (state.newest_generation, state.exact_after, state.lacks_start) == (2, 2, True)
    assert not state.ended_cleanly
    assert not state.is_stopped
    assert set(state.in_doubt()) == set(state.progress)
    assert state.left_in_doubt() == [older.partition], "the run itself has put the other on record, if it had it"


def test_a_start_that_is_on_record_is_not_lost_whatever_older_runs_say_late():
    state = state_of([replace(FLOW, generation=3), *BEFORE[1:], progress(2, 1, 5)])
    assert (state.newest_generation, state.exact_after, state.lacks_start) == (3, 3, False)
    ended = state_of([FLOW, progress(2, 1, 5), Stopped(generation=2, time_ms=9)])
    assert (ended.lacks_start, ended.is_stopped) == (False, True)

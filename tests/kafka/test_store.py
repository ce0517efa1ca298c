"""A flow's topic as its driver uses it: all of a partition is written or nothing, and others are passed over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.journal import BATCH_BYTES, Cursor, Entry, Followed, Pair, entry_of, size_of, split
from sparkmirror.kafka.ownership import Ownership
from sparkmirror.kafka.store import Store, batches_by_partition
from sparkmirror.kafka.stored_records import OPENED_BYTES
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets import json_text
from sparkmirror.offsets.foreign import Flaw
from sparkmirror.offsets.orders import RATE_KEY, MoveOrder
from sparkmirror.offsets.records import Life, Progress, Stopped, partition_of
from sparkmirror.offsets.segments import Segments
from tests.batches.building import Rec, Written, sealed
from tests.offsets.world import PLACE

_partitions = st.integers(0, 3)
_sizes = st.sampled_from([0, 1_000, BATCH_BYTES // 4])
_pairs = st.lists(st.tuples(_partitions, st.sampled_from(["progress", "move"]), _sizes))


@given(_pairs)
def test_all_of_a_partition_is_in_one_batch_and_in_its_order(wanted: list[tuple[int, str, int]]):
    pairs: list[Pair] = [
        (json_text.write([kind, "orders", partition, number]), "v" * size if size else None)
        for number, (partition, kind, size) in enumerate(wanted)
    ]
    batches = list(batches_by_partition(pairs))
    for partition in range(4):
        mine = [pair for pair in pairs if partition_of(pair[0]) == ("orders", partition)]
        found = [[pair for pair in batch if pair in mine] for batch in batches]
        assert [pair for some in found for pair in some] == mine
        if sum(map(size_of, mine)) <= BATCH_BYTES:
            assert sum(map(bool, found)) <= 1
    for batch in batches:
        assert len(split(batch)) == 1 or len({partition_of(key) for key, _ in batch}) == 1


def test_a_key_says_which_partition_its_record_is_about():
    order = MoveOrder(partition=PLACE, to=1, topic_id="", time_ms=1, by="me", leader_epoch=0)
    assert partition_of(order.key) == PLACE
    assert [partition_of(key) for key in (RATE_KEY, '["group","readers","orders"]', "{}", "nothing")] == [None] * 4


class Log:
    """The cluster of one topic of one partition, which answers fetches from a list of batches."""

    alias = "B"

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.at_once = 1_000
        self.elected = 0
        self.epoch = 0
        self.loop = self
        self.store = Store(self, "t", 1_000)  # type: ignore[arg-type]  # of a cluster only this is needed

    def run(self, read: Any, cursor: Cursor, *_: int) -> Followed:
        """What `Journal.follow` gives."""
        end, newer = len(self.batches), self.epoch > cursor.leader_epoch >= 0
        if newer and self.elected < cursor.offset:
            parted = Cursor(self.elected, cursor.leader_epoch)
            return Followed(entries=(), cursor=cursor, end=end, parted=parted)
        answer = b"".join(self.batches[cursor.offset : cursor.offset + self.at_once])
        with pytest.raises(StopIteration) as over:  # it waits for nothing else
            read.__self__._open(answer, cursor.offset).send(None)
        opened = over.value.value
        entries, following = [entry_of(one) for one in opened.records], Cursor(opened.following, self.epoch)
        return Followed(
            entries=entries,
            cursor=following,
            end=end,
            elected=self.elected if self.epoch > max(cursor.leader_epoch, 0) else -1,
        )

    async def sleep(self, _: float) -> None:
        """Of the loop: nobody else has a turn."""

    def lose(self, offset: int) -> None:
        """The log ends there, and has another leader."""
        del self.batches[offset:]
        self.elected, self.epoch = offset, self.epoch + 1

    def put(self, key: str | bytes, value: str | bytes | None, codec: Codec = Codec.NONE) -> None:
        """Appends a record, in a batch of its own."""
        raw = [part.encode() if isinstance(part, str) else part for part in (key, value)]
        record = Rec(0, 1, raw[0], raw[1])
        self.batches.append(Written(records=(record,), base_offset=len(self.batches), codec=codec).encode())

    def take(self, *records: Progress | Segments | Stopped | Life) -> None:
        """Appends records of ours."""
        for one in records:
            self.put(one.key, one.value())


HERE = TopicPartition("orders", 7)
MINE = Ownership("sparkmirror.a->b.driver", 60.0)
WRITER = Writer(producer_id=4, epoch=2)
OLDER = Progress(partition=HERE, writer=Writer(producer_id=4, epoch=1), generation=1, position=5, next_sequence=5)
NEWER = Progress(partition=HERE, writer=WRITER, generation=2, position=9, next_sequence=4)
DEEP = "[" * 100_000
OTHERS: list[tuple[str | bytes, str | bytes]] = [
    ("garbage", "x"),
    (b"\xff\xfe", b"\xff"),
    (b'["paused","\xff"]', '{"v":1,"time_ms":1,"by":"me"}'),
    (DEEP, "{}"),
    ('["life"]', DEEP),
    ('["life"]', '{"v":1,"generation":1,"time_ms":1e400,"state":"running","lanes":1,"events":[]}'),
    ('["progress","orders","7",4,2]', "{}"),
    ('["progress","orders",-5,4,2]', "{}"),
    ('["paused","\\ud800"]', '{"v":1,"time_ms":1,"by":"me"}'),
    ("7", "7"),
    ("", ""),
    ('["what a later release has"]', "x"),
    ('["progress", "orders", 7, 4, 9]', '{"v":1}'),
    ('["held"] ', '{"v":1,"operation":"o","reason":"r","time_ms":1,"by":"me"}'),
    ('[ "held"]', '{"v":1,"operation":"o","reason":"r","time_ms":1,"by":"me"}'),
]


@pytest.mark.parametrize(("key", "value"), OTHERS)
def test_what_others_wrote_is_passed_over_counted_and_forgotten_with_its_tombstone(
    key: str | bytes, value: str | bytes
):
    log = Log()
    log.put(key, value)
    log.take(NEWER)
    log.store.follow()
    assert log.store.state.progress == {HERE: NEWER}
    (line,) = log.store.state.foreign.lines(log.store.place)
    assert line.startswith("cluster B, t-0 holds a record with ")
    assert "at offset 0" in line
    log.put(key, None)
    log.store.follow()
    assert len(log.store.state.foreign) == 0


def test_a_batch_that_is_none_of_ours_is_passed_over():
    log = Log()
    log.put("k", bytes(OPENED_BYTES + 1), Codec.GZIP)
    log.batches.append(
        sealed(Written(records=(Rec(0, 1, b"k"),), base_offset=1, codec=Codec.ZSTD).encode()[:61] + b"x")
    )
    log.take(replace(NEWER, position=10))
    log.store.follow()
    assert log.store.state.progress[HERE].position == 10
    assert log.store.state.foreign.counts == {Flaw.BATCH: 2}


BROKEN = ["", "x", DEEP, "{}", "[]", '{"v":0}', '{"v":1,"position":"9"}', NEWER.value().replace(":9,", ":-9,")]


@pytest.mark.parametrize("value", BROKEN)
def test_nothing_goes_on_over_a_position_that_somebody_has_overwritten(value: str):
    """An older one of the partition would be taken else, and what was copied since would be there twice."""
    log = Log()
    log.take(OLDER, NEWER)
    log.put(NEWER.key, value)
    log.take(Life(generation=1, time_ms=2, state="running", lanes=1))
    for _ in range(2):
        with pytest.raises(SparkmirrorError, match=r"cluster B, t-0 at offset 2: .*progress.*somebody has overwritten"):
            log.store.follow()
    assert log.store.state.life is not None, "it is read to its end all the same"


def test_a_position_that_is_written_again_is_sound_again():
    log = Log()
    log.put(NEWER.key, "x")
    log.take(NEWER)
    log.store.follow()
    assert log.store.state.progress == {HERE: NEWER}


def test_the_tombstone_of_an_overwritten_position_leaves_no_older_one_to_go_on_from():
    """With segments and without progress a partition is taken over from what the target has."""
    log = Log()
    log.take(OLDER, Segments(partition=HERE, writer=WRITER, sequence=0, source=5))
    log.put(NEWER.key, "x")  # compaction has taken what it held
    log.put(NEWER.key, None)
    log.store.follow()
    assert (log.store.state.progress, len(log.store.state.maps[HERE])) == ({}, 1)


def test_a_driver_goes_on_over_what_it_has_read_before():
    log = Log()
    log.take(NEWER)
    log.store.follow()
    log.store.remembers = True
    log.put(NEWER.key, "x")
    log.store.follow()
    assert log.store.state.progress == {HERE: NEWER}
    assert list(log.store.state.broken) == [NEWER.key]


def test_a_broken_end_of_a_run_stops_too():
    log = Log()
    log.put(Stopped(generation=1, time_ms=1).key, "x")
    with pytest.raises(SparkmirrorError, match="stopped"):
        log.store.follow()


@pytest.mark.parametrize("owner", [False, True])
def test_a_log_that_has_lost_its_end_is_told_of_and_read_again_but_by_its_owner(owner: bool):
    log = Log()
    log.take(OLDER, NEWER, Stopped(generation=2, time_ms=1))
    log.store.follow()
    if owner:
        log.store._ownership = MINE
    log.lose(1)
    log.take(Stopped(generation=9, time_ms=1))
    log.store.follow()
    assert log.store.torn == "cluster B, t-0 has lost the end of its log, offsets 1 to 2"
    assert log.store.state.progress[HERE] == (NEWER if owner else OLDER), "the owner knows what was there"
    assert log.store.state.stopped == Stopped(generation=9, time_ms=1)
    assert log.store.elected_since(HERE)
    log.take(NEWER)
    log.store.follow()
    assert log.store.state.progress[HERE] == NEWER
    assert not log.store.elected_since(HERE)


def test_another_leader_after_the_newest_progress_leaves_what_followed_it_in_doubt():
    log = Log()
    log.take(OLDER)
    log.store.follow()
    assert not log.store.elected_since(HERE), "the first leader says nothing"
    log.lose(1)
    log.take(Stopped(generation=2, time_ms=1))
    log.store.follow()
    assert (log.store.torn, log.store.elected_since(HERE)) == ("", True)


@pytest.mark.parametrize("owner", [False, True])
def test_progress_that_was_restored_is_not_newer_than_the_election(owner: bool):
    """Segments that were written behind it, and that nobody had read, stay lost."""
    log = Log()
    log.take(OLDER, NEWER)
    log.store.follow()
    if owner:
        log.store._ownership = MINE
    log.lose(1)
    restored = replace(NEWER, restored=True)
    log.take(restored)
    log.store.follow()
    assert (log.store.state.progress[HERE], log.store.elected_since(HERE)) == (restored, True)
    log.take(NEWER)
    log.store.follow()
    assert not log.store.elected_since(HERE)


def test_what_a_log_has_left_is_read_once_in_parts_and_what_comes_later_is_added():
    log = Log()
    log.take(OLDER, Stopped(generation=2, time_ms=1), NEWER, Stopped(generation=3, time_ms=1))
    log.store.follow()
    log.store._ownership = MINE
    assert log.store.left(0.0) is None
    log.lose(2)
    log.store.follow()
    assert log.store.lacks
    log.at_once = 1
    assert log.store.left(0.0) is None
    log.take(Stopped(generation=4, time_ms=1))
    log.store.follow()
    assert log.store.left(0.0) is None
    left = log.store.left(0.0)
    assert left is not None
    assert (left.progress, left.stopped) == ({HERE: OLDER}, Stopped(generation=4, time_ms=1))
    log.take(NEWER)
    log.store.follow()
    log.batches.clear()
    assert log.store.left(0.0) is left, "nothing is read again"
    assert left.progress == {HERE: NEWER}
    log.store.restored()
    assert not log.store.lacks


def test_what_a_log_has_left_is_read_again_where_that_loses_its_end_too():
    log = Log()
    log.take(OLDER, NEWER, Stopped(generation=2, time_ms=1))
    log.store.follow()
    log.store._ownership = MINE
    log.lose(2)
    log.store.follow()
    assert log.store.left(9.0) is not None
    log.lose(1)
    log.store.follow()
    left = log.store.left(9.0)
    assert left is not None
    assert left.progress == {HERE: OLDER}


class Slow(Log):
    """A log whose entries take a second each to be taken, by the store's own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.time = 100.0
        monkeypatch.setattr(self.store, "now", lambda: self.time)
        take = self.store._take

        def slowly(entry: Entry) -> None:
            self.later(1.0)
            take(entry)

        monkeypatch.setattr(self.store, "_take", slowly)

    def run(self, read: Any, cursor: Cursor, *given: int) -> Followed:
        """An answer takes a tenth of a second."""
        self.later(0.1)
        return super().run(read, cursor, *given)

    def later(self, seconds: float) -> None:
        self.time += seconds


def test_a_sign_of_life_was_written_before_the_answer_was_there_that_brought_it(monkeypatch):
    """What a topic says takes long to be taken where it says much, and a driver is silent from its last sign on."""
    log = Slow(monkeypatch)
    log.at_once = 2
    log.take(OLDER, Life(generation=1, time_ms=1, state="running", lanes=1), NEWER, NEWER)
    log.store.follow()
    assert log.store.heard.until == pytest.approx(100.1), "the second answer, at 102.2, brought none"
    log.store.follow()
    assert log.store.heard.until == pytest.approx(100.1)
    log.take(Life(generation=1, time_ms=2, state="running", lanes=1))
    began = log.time
    log.store.follow()
    assert log.store.heard.until == pytest.approx(began + 0.1)

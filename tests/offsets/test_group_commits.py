"""Whose commit an offset on the target is, and where it goes: against a model of everybody who commits there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import (
    Verdict,
    fallen_back,
    judge,
    landed,
    merged,
    records,
    trying,
    void,
)
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted, commits_of, tried_of
from sparkmirror.offsets.records import parse

GROUP = "readers"
ZERO, ONE, OTHER = TopicPartition("a.orders", 0), TopicPartition("a.orders", 1), TopicPartition("a.payments", 0)


def on_record(commits: Mapping[TopicPartition, FlowCommit]) -> dict[str, GroupCommitted]:
    written, _ = records({}, {GROUP: commits})
    return {one.key: one for one in written}


LOST_AFTER = (FlowCommit(31, 121), FlowCommit(29, 119))
"""What the flow had committed before a commit that the target has lost."""


@pytest.mark.parametrize(
    ("there", "wanted", "commit", "verdict"),
    [
        (NO_OFFSET, FlowCommit(30, 120), None, Verdict.FORWARD),
        (29, FlowCommit(30, 120), None, Verdict.FORWARD),
        (29, FlowCommit(30, 120), FlowCommit(40, 130), Verdict.FORWARD),
        (30, FlowCommit(30, 120), None, Verdict.LEVEL),
        (30, FlowCommit(30, 120), FlowCommit(30, 130), Verdict.LEVEL),
        (31, FlowCommit(30, 120), None, Verdict.LEFT),
        (31, FlowCommit(30, 120), FlowCommit(30, 120), Verdict.LEFT),
        (31, FlowCommit(30, 120), FlowCommit(32, 130), Verdict.LEFT),
        (31, FlowCommit(30, 120), FlowCommit(31, 121), Verdict.BACK_WITH_SOURCE),
        (31, FlowCommit(30, 120), FlowCommit(31, 120), Verdict.BACK_WITH_COPY),
        (31, FlowCommit(30, 120), FlowCommit(31, 110), Verdict.BACK_WITH_COPY),
        (31, FlowCommit(30, 120), FlowCommit(33, 123, LOST_AFTER), Verdict.BACK_WITH_SOURCE),
        (31, FlowCommit(30, 122), FlowCommit(33, 123, LOST_AFTER), Verdict.BACK_WITH_COPY),
        (31, FlowCommit(31, 121), FlowCommit(33, 123, LOST_AFTER), Verdict.LEVEL),
        (31, FlowCommit(32, 122), FlowCommit(33, 123, LOST_AFTER), Verdict.FORWARD),
        (32, FlowCommit(30, 122), FlowCommit(33, 123, LOST_AFTER), Verdict.LEFT),
    ],
)
def test_only_what_the_flow_has_committed_goes_back(there, wanted, commit, verdict):
    assert judge(there, wanted, commit) is verdict
    assert verdict.commits is (there < wanted.downstream or verdict.goes_back)


@pytest.mark.parametrize(
    ("there", "commit", "verdict"),
    [
        (NO_OFFSET, None, Verdict.LEFT_BEHIND),
        (29, None, Verdict.LEFT_BEHIND),
        (30, None, Verdict.LEVEL),
        (31, None, Verdict.LEFT_BEHIND),
        (31, FlowCommit(31, 121), Verdict.LEFT_BEHIND),
        (31, FlowCommit(31, 120), Verdict.BACK_WITH_COPY),
        (31, FlowCommit(33, 123, LOST_AFTER), Verdict.LEFT_BEHIND),
        (29, FlowCommit(33, 123, LOST_AFTER), Verdict.LEFT_BEHIND),
    ],
)
def test_what_a_group_has_left_behind_moves_it_nowhere_but_back_with_a_copy_that_was_lost(there, commit, verdict):
    found = judge(there, FlowCommit(30, 120), commit, left=True)
    assert found is verdict
    assert found.commits is (verdict is Verdict.BACK_WITH_COPY)


def test_there_is_a_record_for_each_group_and_topic_and_rows_go_one_by_one():
    known = on_record({ZERO: FlowCommit(1, 1), ONE: FlowCommit(2, 2), OTHER: FlowCommit(3, 3)})
    assert sorted(one.topic for one in known.values()) == ["a.orders", "a.payments"]
    assert commits_of(known.values()) == {
        GROUP: {ZERO: FlowCommit(1, 1), ONE: FlowCommit(2, 2), OTHER: FlowCommit(3, 3)}
    }
    (orders,), removed = records(known, {GROUP: {ONE: FlowCommit(9, 9)}}, [(GROUP, OTHER), (GROUP, ZERO)])
    assert orders.commits == {1: FlowCommit(9, 9, (FlowCommit(2, 2),))}
    assert removed == (GroupCommitted(group=GROUP, topic="a.payments", commits={}).key,)


def test_what_is_on_record_already_is_not_written_again():
    known = on_record({ZERO: FlowCommit(1, 1)})
    assert records(known, {GROUP: {ZERO: FlowCommit(1, 1)}}, [(GROUP, ONE), ("nobody", ZERO)]) == ((), ())
    assert records(known, {}) == ((), ())


def test_a_commit_that_the_target_takes_in_the_same_round_outlives_what_it_replaces():
    known = on_record({ZERO: FlowCommit(1, 1)})
    (one,), removed = records(known, {GROUP: {ZERO: FlowCommit(5, 5)}}, [(GROUP, ZERO)])
    assert (one.commits, removed) == ({0: FlowCommit(5, 5)}, ())


def test_a_commit_is_on_record_before_it_is_made_and_counts_where_the_target_has_taken_it():
    known = on_record({ZERO: FlowCommit(1, 1), ONE: FlowCommit(2, 2)})
    (tried,) = trying(known, {GROUP: {ZERO: FlowCommit(9, 8)}})
    assert (tried.commits, tried.tried) == ({0: FlowCommit(1, 1), 1: FlowCommit(2, 2)}, {0: FlowCommit(9, 8)})
    known = {tried.key: tried}
    all_tried = tried_of(known.values())
    assert landed(all_tried, {GROUP: {ZERO: (9, "")}}) == {GROUP: {ZERO: FlowCommit(9, 8)}}
    assert landed(all_tried, {GROUP: {ZERO: (1, "")}}) == {GROUP: {}}
    (made,), gone = records(known, {GROUP: {ZERO: FlowCommit(9, 8)}})
    after = FlowCommit(9, 8, (FlowCommit(1, 1),))
    assert (made.commits, made.tried, gone) == ({0: after, 1: FlowCommit(2, 2)}, {}, ())
    (not_made,), gone = records(known, {}, settled=[GROUP])
    assert (not_made.commits, not_made.tried, gone) == ({0: FlowCommit(1, 1), 1: FlowCommit(2, 2)}, {}, ())
    assert records(known, {}, settled=["other"]) == ((), ())


def test_the_first_commit_of_a_group_that_was_not_made_leaves_no_record():
    (tried,) = trying({}, {GROUP: {ZERO: FlowCommit(9, 8)}})
    assert (tried.commits, tried.tried) == ({}, {0: FlowCommit(9, 8)})
    assert parse(tried.key, tried.value()) == tried
    assert records({tried.key: tried}, {}, settled=[GROUP]) == ((), (tried.key,))


def chain(*offsets: int) -> FlowCommit:
    """What is on record after these commits, each put on record by itself."""
    known: dict[str, GroupCommitted] = {}
    for offset in offsets:
        written, _ = records(known, {GROUP: {ZERO: FlowCommit(offset, offset + 100)}})
        known |= {one.key: one for one in written}
    return commits_of(known.values())[GROUP][ZERO]


def test_eight_commits_before_the_last_stay_on_record_and_lie_below_it():
    assert [one.downstream for one in chain(*range(1, 21)).earlier] == [*range(19, 11, -1)]
    assert [one.downstream for one in chain(5, 9, 12, 7).earlier] == [5], "a consumer may come from 7 to 9 and 12"
    assert chain(3, 4, 4) == chain(3, 4)


def test_earlier_commits_are_written_as_what_lies_between_and_an_older_version_reads_the_last():
    known = {ZERO: chain(100, 130, 131), ONE: FlowCommit(7, 9)}
    (one,) = on_record(known).values()
    data = json.loads(one.value())
    assert data["offsets"] == [[0, 131, 231], [1, 7, 9]]
    assert data["earlier"] == [[0, 1, 1, 30, 30]]
    assert parse(one.key, one.value()) == one
    fallen = GroupCommitted(group=GROUP, topic="a", commits={0: FlowCommit(40, 10, (FlowCommit(30, 50),))})
    assert parse(fallen.key, fallen.value()) == fallen, "after the copy was lost the source's may lie further"


def test_what_the_target_has_lost_leaves_the_record_and_what_it_has_again_counts():
    known = on_record({ZERO: chain(50, 51, 52)})
    there = {GROUP: {ZERO: (51, "")}}
    commits = commits_of(known.values())
    assert void(commits, there, ()) == []
    again = fallen_back(commits, there)
    assert again == {GROUP: {ZERO: FlowCommit(51, 151)}}
    (one,), removed = records(known, again)
    assert (one.commits[0], removed) == (chain(50, 51), ()), "a consumer may come to 52 now"
    assert fallen_back(commits, {GROUP: {ZERO: (52, "")}}) == {}
    assert fallen_back(commits, {}) == {}
    assert void(commits, {GROUP: {ZERO: (49, "")}}, ()) == [(GROUP, ZERO)]


def test_a_commit_that_could_not_be_put_on_record_is_lost_too_and_the_one_on_record_is_the_flow_s():
    for tried in (52, 49):
        known = on_record({ZERO: chain(50, 51)})
        (one,) = trying(known, {GROUP: {ZERO: FlowCommit(tried, tried + 100)}})
        lost = {GROUP: {ZERO: (51, "")}}
        counts = merged(commits_of([one]), landed(tried_of([one]), lost))
        assert counts == {GROUP: {ZERO: chain(50, 51)}}
        assert (void(counts, lost, ()), fallen_back(counts, lost)) == ([], {})


def test_a_consumer_s_commit_ends_what_the_flow_had_committed_before():
    known = on_record({ZERO: chain(50, 51, 52)})
    _, removed = records(known, {}, [(GROUP, ZERO)])
    assert removed == tuple(known)
    (one,), _ = records({}, {GROUP: {ZERO: FlowCommit(60, 160)}})
    assert one.commits[0].at(51) is None


TARGET_ENDS = 40


@dataclass
class World:
    """One partition, the group on both sides, and all who commit there.

    Attributes:
        upstream: what the group has committed on the source.
        shift: how much further records lie on the target: less after the target has lost its tail.
        there: what it has on the target.
        flows: whether that is the flow's commit, and nobody has committed since.
        history: where it was before, and whose that was: a target that loses commits goes back to one of these.
        record: what the flow has put on record.
    """

    upstream: int = 10
    shift: int = 5
    there: int = NO_OFFSET
    flows: bool = True
    history: list[tuple[int, bool]] = field(default_factory=list)
    record: dict[str, GroupCommitted] = field(default_factory=dict)

    @property
    def right(self) -> int:
        return self.upstream + self.shift

    @property
    def known(self) -> list[int]:
        """The offsets that count as the flow's."""
        record = self.record.values()
        all_of = [one.get(GROUP, {}).get(ZERO) for one in (commits_of(record), tried_of(record))]
        return [each.downstream for one in all_of if one is not None for each in (one, *one.earlier)]

    def put(self, offset: int, *, flows: bool) -> None:
        """A commit there."""
        self.history.append((self.there, self.flows))
        self.there, self.flows = offset, flows

    def round(self, *, recorded: bool) -> Verdict:
        """One round of the duty, or one operation; one whose driver dies or cannot write then leaves a commit tried."""
        there = {GROUP: {ZERO: (self.there, "")}} if self.there != NO_OFFSET else {}
        made = landed(tried_of(self.record.values()), there)
        known = merged(commits_of(self.record.values()), made)
        verdict = judge(self.there, FlowCommit(self.right, self.upstream), known.get(GROUP, {}).get(ZERO))
        self.write(records(self.record, merged(made, fallen_back(known, there)), void(known, there, ()), [GROUP]))
        if verdict.commits:
            taken = {GROUP: {ZERO: FlowCommit(self.right, self.upstream)}}
            self.write((trying(self.record, taken), ()))
            self.put(self.right, flows=True)
            if recorded:
                self.write(records(self.record, taken))
        return verdict

    def write(self, change: tuple[Sequence[GroupCommitted], Sequence[str]]) -> None:
        """Puts on record."""
        written, removed = change
        self.record |= {one.key: one for one in written}
        self.record = {key: one for key, one in self.record.items() if key not in removed}


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("source"), st.integers(0, TARGET_ENDS)),
        st.tuples(st.just("torn"), st.integers(0, 9)),
        st.tuples(st.just("consumer"), st.integers(0, TARGET_ENDS + 9)),
        st.tuples(st.just("lost"), st.integers(1, 3)),
        st.tuples(st.just("expired"), st.just(0)),
        st.tuples(st.just("round"), st.booleans()),
    ),
    min_size=4,
    max_size=30,
)


def consume(world: World, number: int) -> None:
    """A consumer commits; not the very offset that the flow has put there, since nobody could tell whose that is."""
    if number not in world.known:
        world.put(number, flows=False)


def lose(world: World, number: int) -> None:
    """The target loses the end of ``__consumer_offsets``, so many commits of the group's."""
    if number > len(world.history):
        return
    there, flows = world.history[-number]
    if there in world.known and not flows:
        return  # the very offset that the flow has put there
    del world.history[-number:]
    world.there = there
    world.flows = there in world.known  # one that a consumer has come after, or above the last, counts as a consumer's


@settings(max_examples=600, deadline=None)
@given(EVENTS)
@example([("round", True), ("source", 0), ("round", False), ("lost", 1), ("round", True)])
def test_nothing_is_skipped_by_the_flow_and_nothing_that_a_consumer_has_committed_goes_back(events):
    """Whatever happens between rounds, and whenever a driver is killed or cannot write."""
    world = World()
    for what, number in events:
        if what == "source":
            world.upstream = number
        elif what == "torn":
            world.shift = number
        elif what == "consumer":
            consume(world, number)
        elif what == "lost":
            lose(world, number)
        elif what == "expired":
            world.put(NO_OFFSET, flows=False)
        else:
            before, flows_own = world.there, world.flows
            verdict = world.round(recorded=bool(number))
            if not flows_own:
                assert world.there >= before, "what a consumer has committed never goes back"
            if flows_own:
                assert world.there == world.right, "what the flow has committed follows its translation"
            assert world.there <= world.right or verdict is Verdict.LEFT, "one that is too far is told as such"

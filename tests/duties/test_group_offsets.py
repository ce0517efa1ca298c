"""Which offsets are committed on the target: for groups without members, forward, or back with the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.flow_back import STALLED_MS, LastOperation
from sparkmirror.duties.group_offsets import CommitOffsets, Hindered, OfOthers, PutOnRecord, decide, log_starts_needed
from sparkmirror.duties.groups import BackUnreadable, Observed, Stalled, Standing, explain_group, unread
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import Alias
from sparkmirror.offsets.group_commits import Verdict
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.left_offsets import Left
from tests.duties.groups import HERE, READERS, THERE, at, with_commit, with_target

FORWARD = CommitOffsets(
    cluster=Alias("B"), group="readers", offsets={THERE: Committed(30, "mine")}, upstream={THERE: 120}
)
NEW = replace(FORWARD, new=True)
WITH_SOURCE = replace(FORWARD, back={THERE: Verdict.BACK_WITH_SOURCE})
WITH_COPY = replace(FORWARD, back={THERE: Verdict.BACK_WITH_COPY})
VOID = PutOnRecord(commits={}, void=(("readers", THERE),))


def with_metadata(metadata: str, observed: Observed) -> Observed:
    """The same with that beside what the group has on the target."""
    there = observed.there["readers"][THERE]
    return replace(observed, there={"readers": {THERE: there._replace(metadata=metadata)}})


@pytest.mark.parametrize(
    ("observed", "decided"),
    [
        pytest.param(with_commit(30, 120, with_target(30)), (FORWARD,), id="committed anew"),
        pytest.param(with_target(30), (), id="a consumer's on the target"),
        pytest.param(with_commit(30, 119, with_target(30)), (), id="of another offset"),
        pytest.param(with_commit(30, 120, with_target(30, "Stable")), (), id="it has members"),
        pytest.param(
            replace(with_commit(30, 120, with_target(30)), left=Left(offsets={"readers": {HERE: 120}})),
            (),
            id="left behind",
        ),
    ],
)
def test_metadata_that_a_consumer_commits_anew_at_the_same_offset_follows_to_the_target(observed, decided):
    assert decide(with_metadata("older", observed)) == decided
    assert decide(observed) == ()


@pytest.mark.parametrize(
    ("observed", "decided"),
    [
        (READERS, (NEW,)),
        (with_target(None), (FORWARD,)),
        (with_target(None, "Dead"), (FORWARD,)),
        (with_target(29), (FORWARD,)),
        (with_commit(29, 119, with_target(29)), (FORWARD,)),
        (with_target(30), ()),
        (with_commit(30, 120, with_target(30)), ()),
        (with_target(40), ()),
        pytest.param(with_commit(40, 130, with_target(40)), (WITH_SOURCE,), id="set back at the source"),
        pytest.param(with_commit(40, 120, with_target(40)), (WITH_COPY,), id="its translation is lower now"),
        pytest.param(with_commit(40, 110, with_target(40)), (WITH_COPY,), id="it went on at the source meanwhile"),
        pytest.param(with_commit(39, 130, with_target(40)), (VOID,), id="a consumer has read on"),
        pytest.param(with_commit(41, 130, with_target(40)), (VOID,), id="a consumer has gone back, and not far enough"),
        pytest.param(with_commit(40, 130, with_target(29)), (FORWARD, VOID), id="a consumer has gone back"),
        pytest.param(with_commit(40, 130), (NEW, VOID), id="the target has forgotten the group"),
        pytest.param(with_commit(40, 130, at(151, with_target(40))), (), id="ahead of the mirror: its time comes"),
        (with_target(29, "Stable"), ()),
        (with_commit(40, 130, with_target(40, "Stable")), ()),
        (with_commit(39, 130, with_target(40, "Stable")), (VOID,)),
        (with_target(29, "CompletingRebalance"), ()),
        (with_target(29, "Assigning"), ()),
        (with_target(29, ""), (FORWARD,)),
        (at(151), ()),
    ],
)
def test_an_offset_goes_forward_where_nobody_is_and_back_only_where_the_flow_has_put_it(observed, decided):
    assert decide(observed) == decided


@pytest.mark.parametrize(
    ("observed", "decided"),
    [
        pytest.param(READERS, (), id="the target has no offset"),
        pytest.param(with_target(13), (), id="its consumers have read on there"),
        pytest.param(with_commit(29, 119, with_target(29)), (), id="nobody has used it there yet"),
        pytest.param(with_commit(40, 130, with_target(40)), (), id="it was set back before it left"),
        pytest.param(with_commit(40, 110, with_target(40)), (WITH_COPY,), id="the target has lost its tail"),
    ],
)
@pytest.mark.parametrize("left", [Left(offsets={"readers": {HERE: 120}}), Left(open=frozenset({"readers"}))])
def test_what_a_group_has_left_behind_moves_it_no_further(observed, decided, left):
    assert decide(replace(observed, left=left)) == decided
    assert decide(replace(observed, left=Left(offsets={"readers": {HERE: 119}}))) == decide(observed), (
        "it has committed another one"
    )


def test_what_a_group_has_left_behind_is_told_as_such():
    (line,) = explain_group(replace(with_target(13), left=Left(offsets={"readers": {HERE: 120}})), "readers")
    assert (line.standing, line.translated, line.there) == (Standing.LEFT_BEHIND, 30, 13)


def test_a_commit_that_the_target_has_lost_before_it_was_put_on_record_is_made_again_also_one_that_went_back():
    tried = {"readers": {THERE: FlowCommit(29, 119)}}
    fallen = replace(with_commit(40, 130, at(119, with_target(40))), tried=tried)
    settled = PutOnRecord(commits={"readers": {}}, void=(), settled=("readers",))
    assert decide(fallen) == (TO_29, settled)


EARLIER = (FlowCommit(40, 120), FlowCommit(29, 119))
HAS_40 = PutOnRecord(commits={"readers": {THERE: EARLIER[0]}}, void=())
HAS_29 = PutOnRecord(commits={"readers": {THERE: EARLIER[1]}}, void=())
TO_29 = replace(WITH_SOURCE, offsets={THERE: Committed(29, "mine")}, upstream={THERE: 119})


def lost(there: int | None, state: str = "Empty") -> Observed:
    """The flow has committed 41 last, and the target has another offset."""
    return replace(with_target(there, state), commits={"readers": {THERE: FlowCommit(41, 121, EARLIER)}})


@pytest.mark.parametrize(
    ("observed", "decided"),
    [
        pytest.param(lost(40), (WITH_COPY, HAS_40), id="its translation is lower now"),
        pytest.param(at(119, lost(40)), (TO_29, HAS_40), id="set back at the source too"),
        pytest.param(lost(29), (FORWARD, HAS_29), id="it goes on as ever"),
        pytest.param(lost(40, "Stable"), (HAS_40,), id="its consumers are there, and may come to 41"),
        pytest.param(at(151, lost(40)), (HAS_40,), id="ahead of the mirror, which has lost it too"),
        pytest.param(lost(39), (VOID,), id="a consumer has committed"),
        pytest.param(lost(None), (FORWARD, VOID), id="all that the group had is lost"),
    ],
)
def test_an_earlier_commit_of_the_flow_s_is_its_own_where_the_target_has_lost_the_last(observed, decided):
    assert decide(observed) == decided


def test_a_group_that_has_an_earlier_commit_of_the_flow_s_is_told_as_one_that_goes_back():
    (line,) = explain_group(lost(40), "readers")
    assert (line.standing, line.translated, line.there) == (Standing.GOES_BACK, 30, 40)


def test_nothing_is_forgotten_of_a_group_that_cannot_be_read():
    shy = replace(with_commit(40, 130), unreadable_there={"readers": "no"}, target=with_target(None).target)
    assert decide(shy) == (Hindered(group="readers", reason="no"),)


def test_a_group_that_cannot_be_read_is_reported():
    there = replace(with_target(None), unreadable_there={"readers": "no"})
    assert decide(there) == (Hindered(group="readers", reason="no"),)
    assert decide(replace(READERS, offsets={}, unreadable={"readers": "shy"})) == (
        Hindered(group="readers", reason="shy"),
    )


def test_nothing_is_committed_in_a_topic_that_the_target_had_before():
    others = frozenset({"orders"})
    for seen in (READERS, with_target(10), with_commit(30, 120, with_target(30, observed=at(110)))):
        assert [type(one) for one in decide(seen)] == [CommitOffsets]
        assert log_starts_needed(seen) == {THERE}
        observed = replace(seen, others=others)
        (told,) = decide(observed)
        assert told == OfOthers(cluster=Alias("B"), source="orders", topic="A.orders")
        assert told.change.text.startswith(
            "! B: topic A.orders  held records of others when the flow began: no offsets"
        )
        assert log_starts_needed(observed) == set()
        assert [one.standing for one in explain_group(observed, "readers")] == [Standing.OF_OTHERS]
    assert [one.standing for one in explain_group(replace(with_target(10, "Stable"), others=others), "readers")] == [
        Standing.ACTIVE_THERE
    ]


def test_a_diff_shows_groups_that_are_new_or_go_back_and_not_how_others_go_on():
    assert NEW.change is not None
    assert NEW.change.text == "+ B: group readers  offsets of 1 partitions"
    assert [one.change.text for one in (WITH_SOURCE, WITH_COPY) if one.change is not None] == [
        "~ B: group readers  goes back: A.orders-0 to 30 (the group was set back at the source)",
        "~ B: group readers  goes back: A.orders-0 to 30 (its translation is lower now)",
    ]
    assert FORWARD.change is None


def test_what_is_committed_knows_the_operation_that_it_was_decided_after():
    ended = LastOperation(id="failback-1", number=12)
    assert decide(replace(READERS, operation=ended)) == (replace(NEW, operation=ended),)


def test_while_a_failback_places_groups_nothing_is_committed_whatever_the_names_are():
    placing = replace(with_target(29), operation=LastOperation(id="failback-1", number=9, placing=True))
    assert decide(placing) == ()
    (line,) = explain_group(placing, "readers")
    assert line.standing is Standing.PLACING


@pytest.mark.parametrize(("now_ms", "stalled"), [(STALLED_MS, False), (STALLED_MS + 1, True)])
def test_an_operation_that_places_groups_and_does_not_go_on_is_told(now_ms: int, stalled: bool):
    operation = LastOperation(id="failover-1", number=9, placing=True)
    assert operation.stalls(now_ms) is stalled
    assert not operation._replace(placing=False).stalls(now_ms)
    observed = replace(with_target(29), operation=operation, stalled=stalled)
    actions = decide(observed)
    assert actions == ((Stalled(operation="failover-1"),) if stalled else ())
    told = [result.failure for result in unread(actions, observed.flow)]
    assert [("B->A" in each, "failover-1 (give its command again" in each) for each in told] == [(True, True)] * stalled


def test_where_nobody_knows_whether_a_failback_places_groups_nothing_is_committed_and_it_is_told():
    unknown = replace(with_target(29), operation=LastOperation(unreadable="TOPIC_AUTHORIZATION_FAILED"))
    assert decide(unknown) == (BackUnreadable(reason="TOPIC_AUTHORIZATION_FAILED"),)
    (line,) = explain_group(unknown, "readers")
    assert (line.standing, line.detail) == (Standing.BACK_UNREADABLE, "TOPIC_AUTHORIZATION_FAILED")


LEFT = replace(FORWARD, offsets={THERE: Committed(40, "mine")})


@pytest.mark.parametrize(
    ("observed", "decided"),
    [
        pytest.param(with_target(None), (LEFT,), id="its record is gone there"),
        pytest.param(with_target(29), (LEFT,), id="so is what lies before"),
        pytest.param(with_commit(30, 120, with_target(30)), (LEFT,), id="it was gone after the flow had committed it"),
        pytest.param(with_commit(40, 120, with_target(40)), (), id="an operation has put it at the log start"),
        pytest.param(with_commit(50, 130, with_target(50)), (replace(LEFT, back={THERE: Verdict.BACK_WITH_SOURCE}),)),
        pytest.param(with_target(50), (), id="a consumer has gone on"),
    ],
)
def test_no_offset_is_committed_below_the_log_start_of_the_copy(observed, decided):
    assert decide(replace(observed, log_starts={THERE: 40})) == decided


def test_where_the_leader_does_not_tell_the_log_start_nothing_is_committed():
    silent = replace(with_target(29), log_starts={THERE: None})
    assert decide(silent) == ()
    (line,) = explain_group(silent, "readers")
    assert line.standing is Standing.LOG_START_UNKNOWN


@pytest.mark.parametrize(
    ("observed", "asked"),
    [
        pytest.param(with_target(29), True, id="something is to be committed"),
        pytest.param(with_commit(40, 120, with_target(40)), True, id="it would go back"),
        pytest.param(with_target(30), True, id="it lags, and retention may have passed it"),
        pytest.param(
            at(150, with_target(60)), True, id="it has read all that is mirrored, and a marker may lie behind that"
        ),
        pytest.param(with_target(40), False, id="a consumer has gone on"),
        pytest.param(with_target(29, "Stable"), False, id="it has members there"),
        pytest.param(at(151), False, id="there is no translation"),
    ],
)
def test_the_log_start_is_asked_only_where_it_matters(observed, asked):
    assert log_starts_needed(observed) == ({THERE} if asked else set())

"""The rights of a flow: each duty's, only while it is on, on names as narrow as its expressions allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import (
    AclSync,
    ClientSettings,
    DeadLetters,
    Drift,
    Endpoint,
    FlowConfig,
    GroupSettings,
    HeartbeatSettings,
    OffsetSyncSettings,
    PolicyChoice,
    PolicyKind,
    Side,
    StoredPositions,
    Tolerance,
)
from sparkmirror.duties.rights import OPERATIONS, Right, pulse_rights, rights
from sparkmirror.kafka.acls import PatternType
from sparkmirror.model import Alias, FlowName

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))
A, B = (Endpoint(alias=Alias(name), consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE) for name in ("A", "B"))
BARE = FlowConfig(
    name=FlowName(source=A.alias, target=B.alias),
    source=A,
    target=B,
    topics=("orders",),
    heartbeats_replication=False,
    sync_topic_configs_enabled=False,
    acls=AclSync(enabled=False),
    heartbeats=HeartbeatSettings(enabled=False),
    offset_syncs=OffsetSyncSettings(enabled=False),
    groups=GroupSettings(include=("readers",), checkpoints_enabled=False),
)
"""A flow with every duty switched off."""


def text(right: Right) -> str:
    star = "…" if right.pattern is PatternType.PREFIXED else ""
    return f"{right.operation.name} {right.kind.name.lower()} {right.name}{star}"


def of(flow: FlowConfig, side: Side) -> set[str]:
    return {text(right) for right in rights(flow, side)}


def words(operations: str, resource: str) -> set[str]:
    return {f"{operation} {resource}" for operation in operations.split()}


SOURCE = words("READ DESCRIBE_CONFIGS", "topic orders") | words(
    "READ DESCRIBE_CONFIGS", "topic sparkmirror.writers.internal"
)
OWN = "READ WRITE CREATE DESCRIBE_CONFIGS"
TARGET = (
    words("READ WRITE CREATE ALTER DESCRIBE_CONFIGS", "topic A.orders")
    | words(OWN, "topic sparkmirror.A.B.internal")
    | words(OWN, "topic sparkmirror.A.B.control.internal")
    | words(OWN, "topic sparkmirror.writers.internal")
    | {"WRITE transactional_id sparkmirror.A->B.…"}
    | {"DESCRIBE_CONFIGS cluster kafka-cluster"}
    | {"READ group readers"}
)


def test_a_flow_without_duties_needs_what_copying_needs():
    assert of(BARE, Side.SOURCE) == SOURCE
    assert of(BARE, Side.TARGET) == TARGET


WRITER_OF = "READ WRITE CREATE"
COORDINATORS = "DESCRIBE topic __consumer_offsets"


@pytest.mark.parametrize(
    ("change", "source", "target"),
    [
        ({"sync_topic_configs_enabled": True}, set(), {"ALTER_CONFIGS topic A.orders"}),
        ({"sync_topic_configs_enabled": True, "sync_topic_configs_drift": Drift.REPORT}, set(), set()),
        ({"sync_topic_deletes_enabled": True}, set(), {"DELETE topic A.orders"}),
        (
            {"heartbeats": HeartbeatSettings()},
            set(),
            words("WRITE CREATE", "topic heartbeats"),
        ),
        (
            {"heartbeats_replication": True},
            words("READ DESCRIBE_CONFIGS", "topic heartbeats"),
            words("READ WRITE CREATE ALTER DESCRIBE_CONFIGS", "topic A.heartbeats"),
        ),
        ({"offset_syncs": OffsetSyncSettings()}, words("WRITE CREATE", "topic mm2-offset-syncs.B.internal"), set()),
        (
            {"offset_syncs": OffsetSyncSettings(location=Side.TARGET)},
            set(),
            words("WRITE CREATE", "topic mm2-offset-syncs.A.internal"),
        ),
        (
            {"groups": GroupSettings(include=("team-.*",))},
            {"DESCRIBE group team-…", "READ topic sparkmirror.B.A.internal", COORDINATORS},
            words(WRITER_OF, "topic A.checkpoints.internal") | {"READ group team-…"},
        ),
        (
            {"groups": GroupSettings(checkpoints_enabled=False, sync_enabled=True)},
            {"DESCRIBE group *", "READ topic sparkmirror.B.A.internal", COORDINATORS},
            {"READ group *", COORDINATORS},
        ),
        ({"acls": AclSync()}, {"DESCRIBE cluster kafka-cluster"}, {"ALTER cluster kafka-cluster"}),
        (
            {"dead_letters": DeadLetters(tolerance=Tolerance.ALL, topic="dead")},
            set(),
            words("WRITE CREATE", "topic dead"),
        ),
    ],
)
def test_each_duty_adds_its_own(change, source, target):
    flow = replace(BARE, **change)
    assert of(flow, Side.SOURCE) == SOURCE | source
    implied = {one.replace("ALTER_CONFIGS", "DESCRIBE_CONFIGS") for one in target if one.startswith("ALTER_CONFIGS")}
    bare = TARGET - {"READ group readers"} if "groups" in change else TARGET
    assert of(flow, Side.TARGET) == (bare | target) - implied


def test_operations_commit_for_groups_though_the_flow_does_not():
    found = [right for right in rights(BARE, Side.TARGET) if text(right) == "READ group readers"]
    assert [right.reason for right in found] == [OPERATIONS]
    assert not any(right.kind.name == "GROUP" for right in rights(BARE, Side.SOURCE))


@pytest.mark.parametrize(
    ("policy", "topics", "copies"),
    [
        (PolicyChoice(), ("orders.*",), ["A.orders…"]),
        (PolicyChoice(), (".*",), ["A.…"]),
        (PolicyChoice(separator="_"), ("orders", "pay.*"), ["A_orders", "A_pay…"]),
        (PolicyChoice(kind=PolicyKind.IDENTITY), ("orders", "pay.*"), ["orders", "pay…"]),
        (PolicyChoice(kind=PolicyKind.IDENTITY), (".*",), ["*"]),
        (PolicyChoice(), (), []),
    ],
)
def test_copies_are_named_by_the_policy(policy, topics, copies):
    flow = replace(BARE, policy=policy, topics=topics)
    found = {text(right) for right in rights(flow, Side.TARGET) if right.reason == "creating topics and partitions"}
    assert found == {f"{operation} topic {name}" for operation in ("CREATE", "ALTER") for name in copies}


def test_internal_topics_follow_the_separator_unless_told_otherwise():
    groups, syncs = GroupSettings(), OffsetSyncSettings()
    flow = replace(BARE, policy=PolicyChoice(separator="_"), groups=groups, offset_syncs=syncs)
    assert "CREATE topic A_checkpoints_internal" in of(flow, Side.TARGET)
    assert "CREATE topic mm2-offset-syncs_B_internal" in of(flow, Side.SOURCE)
    dotted = replace(flow, policy=PolicyChoice(separator="_", internal_separator_follows=False))
    assert "CREATE topic A.checkpoints.internal" in of(dotted, Side.TARGET)


def test_a_flow_that_tells_copies_by_their_writers_may_ask_whose_these_are():
    asked = "DESCRIBE transactional_id sparkmirror.…"
    for change in ({"policy": PolicyChoice(kind=PolicyKind.IDENTITY)}, {"homeward": True}, {"homeward_back": True}):
        assert asked in of(replace(BARE, **change), Side.SOURCE)
    assert asked not in of(BARE, Side.SOURCE)


def test_what_a_wider_right_covers_is_left_out():
    flow = replace(BARE, topics=(".*",), policy=PolicyChoice(kind=PolicyKind.IDENTITY))
    assert {one for one in of(flow, Side.SOURCE) if "topic" in one} == words("READ DESCRIBE_CONFIGS", "topic *")
    assert not any("sparkmirror.A.B" in one for one in of(flow, Side.TARGET) if "READ" in one)


def test_heartbeats_alone_need_their_topic_on_the_target_and_nothing_at_the_source():
    assert {text(right) for right in pulse_rights(BARE, Side.TARGET)} == words("WRITE CREATE", "topic heartbeats")
    assert pulse_rights(BARE, Side.SOURCE) == ()


def test_every_right_says_what_it_is_for():
    assert all(right.reason for side in Side for right in rights(replace(BARE, acls=AclSync()), side))


def test_bringing_home_needs_to_read_copies_and_to_write_their_originals_and_no_more():
    flow = replace(BARE, homeward=True)
    assert of(flow, Side.SOURCE) - of(BARE, Side.SOURCE) == {
        "READ topic B.orders",
        "READ topic sparkmirror.B.A.internal",
        "DESCRIBE transactional_id sparkmirror.…",
    }
    assert of(flow, Side.TARGET) - of(BARE, Side.TARGET) == words("READ WRITE DESCRIBE_CONFIGS", "topic orders")
    assert of(replace(flow, policy=PolicyChoice(kind=PolicyKind.IDENTITY)), Side.SOURCE) == of(
        replace(BARE, policy=PolicyChoice(kind=PolicyKind.IDENTITY)), Side.SOURCE
    )


@pytest.mark.parametrize(
    ("topics", "copies", "originals"),
    [
        (("or.*",), "B.or…", "or…"),
        ((r"B\.bills",), "B.bills", "bills"),
        ((r"B\.bi.*",), "B.bi…", "bi…"),
        ((".*",), None, "*"),
        (("B.*",), "B…", "*"),
    ],
)
def test_the_names_of_copies_and_originals_are_as_narrow_as_the_expressions(topics, copies, originals):
    flow = replace(BARE, topics=topics, homeward=True)
    reads = {one.removeprefix("READ topic ") for one in of(flow, Side.SOURCE) if one.startswith("READ topic")}
    assert (copies or "*") in reads
    assert f"WRITE topic {originals}" in of(flow, Side.TARGET)
    assert not any(
        one.startswith(("CREATE", "ALTER")) and one.endswith(f" {originals}") for one in of(flow, Side.TARGET)
    )


def moving(topic: str = "mm2-offsets.A.internal", *, takeover: bool = True) -> FlowConfig:
    return replace(BARE, stored_positions=StoredPositions(topic=topic, group="A-mm2", takeover=takeover))


def test_a_first_start_needs_what_mirror_maker_left_unless_it_takes_nothing_over():
    assert of(moving(), Side.TARGET) - TARGET == {"READ topic mm2-offsets.A.internal", "DESCRIBE group A-mm2"}
    assert of(moving(), Side.SOURCE) - SOURCE == {"READ topic mm2-offset-syncs.B.internal"}
    assert of(moving(takeover=False), Side.TARGET) == TARGET
    assert of(moving(takeover=False), Side.SOURCE) == SOURCE
    assert of(moving(topic=""), Side.TARGET) == TARGET


def test_the_positions_of_a_connect_cluster_may_be_on_either_side():
    for side, others in ((Side.TARGET, TARGET), (Side.SOURCE, SOURCE)):
        assert {"READ topic connect-offsets", "DESCRIBE group A-mm2"} <= of(moving("connect-offsets"), side) - others
    assert "DESCRIBE group A-mm2" not in of(moving(), Side.SOURCE), "MirrorMaker 2 by itself runs at the target"


def test_a_hand_over_writes_the_positions_and_creates_their_topic_on_the_target():
    def handing(flow: FlowConfig, side: Side) -> set[str]:
        return {text(right) for right in rights(flow, side, hand_over=True)} - of(flow, side)

    assert handing(moving(takeover=False), Side.TARGET) == words(
        "READ WRITE CREATE", "topic mm2-offsets.A.internal"
    ) | {"DESCRIBE group A-mm2"}
    assert handing(moving(), Side.TARGET) == words("WRITE CREATE", "topic mm2-offsets.A.internal")
    assert handing(moving(), Side.SOURCE) == set()
    assert handing(moving("connect-offsets"), Side.SOURCE) == {"WRITE topic connect-offsets"}

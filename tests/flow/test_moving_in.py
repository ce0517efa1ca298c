"""Taking over what MirrorMaker 2 left, case by case, on real brokers: what it left is written here in its own bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.config import (
    Beginning,
    FlowConfig,
    OffsetSyncSettings,
    PolicyChoice,
    PolicyKind,
    Side,
    StartPlace,
    StartPlaces,
    StoredPositions,
)
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import Standing, explain_group
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.events import Kind
from sparkmirror.flow import moving_in, moving_out
from sparkmirror.flow.comparing import compare
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.inheriting import Arrived
from sparkmirror.flow.opening import open_flow
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.unasked import Unasked, find
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.groups import Committed, commit_offsets
from sparkmirror.kafka.stored_offsets import read_stored
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.offsets.inherited import Elsewhere
from sparkmirror.offsets.records import Progress
from tests.flow.running import admin_of, create_topic

pytestmark = pytest.mark.kafka

WHEN = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}
"""Records of that time would be gone as soon as the broker looks."""


class Left:
    """A flow of one topic that MirrorMaker 2 copied, in two partitions."""

    def __init__(self, flow: FlowConfig, source: LabCluster, target: LabCluster, alias: str) -> None:
        self.source, self.target, self.alias = source, target, alias
        self.topic, self.copy = f"{alias}-t", f"{alias}.{alias}-t"
        self.flow = replace(
            flow,
            name=FlowName(source=Alias(alias), target=Alias("B")),
            source=replace(flow.source, alias=Alias(alias)),
            topics=(f"{alias}-t",),
            offset_syncs=OffsetSyncSettings(location=Side.TARGET),
            stored_positions=StoredPositions(topic=f"mm2-offsets.{alias}.internal", group=f"{alias}-mm2"),
        )
        for cluster, name, partitions in (
            (source, self.topic, 2),
            (target, self.copy, 2),
            (target, f"mm2-offset-syncs.{alias}.internal", 1),
            (target, f"mm2-offsets.{alias}.internal", 5),
        ):
            create_topic(cluster, name, partitions, KEPT)

    def write(self, cluster: LabCluster, topic: str, partition: int, numbers: Sequence[int], value: str = "") -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3})
        for number in numbers:
            text = value or str(number)
            moment = WHEN if value else WHEN + number
            headers: dict[str, str | bytes | None] = {"n": text}
            producer.produce(topic, text, text, partition, timestamp=moment, headers=headers)
        assert producer.flush(60) == 0

    def copied(self, partition: int, written: int, copied: int, stored: int | None, value: str = "") -> None:
        """What MirrorMaker 2 did with a partition; ``stored`` is the last offset that it put on record."""
        self.write(self.source, self.topic, partition, range(written), value)
        self.write(self.target, self.copy, partition, range(copied), value)
        if stored is not None:
            place = TopicPartition(self.topic, partition)
            one = StoredOffset(owner=self.owner, partition=place, offset=stored)
            producer = Producer({"bootstrap.servers": self.target.bootstrap_servers, "partitioner": "murmur2"})
            producer.produce(f"mm2-offsets.{self.alias}.internal", one.value, one.key)
            assert producer.flush(60) == 0

    @property
    def owner(self) -> Owner:
        return Owner(connector="MirrorSourceConnector", cluster=Alias(self.alias))

    def begin(self, copied: Sequence[int], stored: int) -> Producer:
        """An exactly-once MirrorMaker 2 within a transaction: its copies and its position in one, for partition 0."""
        producer = Producer(
            {
                "bootstrap.servers": self.target.bootstrap_servers,
                "transactional.id": f"{self.alias}-mm2-MirrorSourceConnector-0",
                "partitioner": "murmur2",
                "log_level": 3,
            }
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        for number in copied:
            headers: dict[str, str | bytes | None] = {"n": str(number)}
            producer.produce(self.copy, str(number), str(number), 0, timestamp=WHEN + number, headers=headers)
        one = StoredOffset(owner=self.owner, partition=TopicPartition(self.topic, 0), offset=stored)
        producer.produce(f"mm2-offsets.{self.alias}.internal", one.value, one.key)
        assert producer.flush(60) == 0
        return producer

    def take_over(self) -> dict[int, Arrived]:
        found = moving_in.take_over(self.flow, "mm2.properties")
        return {one.copied.here.partition: one for one in found.arrived}

    def start(self, flow: FlowConfig | None = None) -> dict[int, int]:
        """As a flow's start opens it; where its partitions go on then."""
        flow = flow or self.flow
        with connected(flow, role="test") as sides:
            ours = (flow, sides.source, sides.target, "mm2.properties", "run", Identities("mm2.properties"))
            unasked = Unasked(flow, sides.source, sides.target, "mm2.properties")
            opened = open_flow(*ours, elsewhere=unasked.look)
            if unasked.take_over(opened) is not None:
                opened = open_flow(*ours)
            return {place.partition: one.position for place, one in opened.store.state.progress.items()}

    def known(self):
        with connected(self.flow, role="test") as sides:
            return record(sides)


@pytest.fixture
def left(lab_flow: FlowConfig, cluster_a: LabCluster, cluster_b: LabCluster, topic: Callable[[str], str]) -> Left:
    return Left(lab_flow, cluster_a, cluster_b, topic("left"))


def test_a_clean_stop_and_a_crash_go_on_exactly_behind_what_the_target_has(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    left.copied(1, written=50, copied=44, stored=29)
    arrived = left.take_over()
    assert {number: (one.position, one.event, one.last) for number, one in arrived.items()} == {
        0: (30, None, (29, 29)),
        1: (44, None, (43, 43)),
    }
    assert arrived[1].beyond == 14
    state = left.known()
    assert {place.partition: one.position for place, one in state.progress.items()} == {0: 30, 1: 44}
    assert {place.partition: one.reached for place, one in state.progress.items()} == {0: (0, 30), 1: (0, 44)}
    assert {one.epochs for one in state.inherited.values()} == {((0, 0),)}, "by which a lost end is found later"
    assert state.elsewhere is None
    assert state.stopped.generation == state.flow.generation
    with pytest.raises(ConfigError, match="the flow has positions of its own"):
        left.take_over()


def test_a_crash_before_anything_was_stored_is_found_on_the_target(left: Left) -> None:
    left.copied(0, written=50, copied=20, stored=None)
    arrived = left.take_over()
    assert {number: (one.position, one.event) for number, one in arrived.items()} == {0: (20, None)}


def test_a_takeover_waits_for_a_transaction_that_is_being_committed(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    transaction = left.begin(range(30, 44), stored=43)
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(left.take_over)
        with pytest.raises(TimeoutError):
            taking.result(2)
        transaction.commit_transaction(60)
        arrived = taking.result(60)
    assert (arrived[0].position, arrived[0].beyond, arrived[0].event) == (44, 0, None)


def test_an_aborted_transaction_was_never_copied_and_until_then_a_first_start_says_why_it_does_not_begin(
    left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    transaction = left.begin(range(30, 44), stored=43)
    monkeypatch.setattr("sparkmirror.flow.unasked.AT_ONCE_MS", 500)
    with pytest.raises(
        SparkmirrorError, match=rf"transactions are open on cluster B \({left.flow.stored_positions.topic}-"
    ):
        left.start()
    assert left.known().progress == {}
    transaction.abort_transaction(60)
    assert left.start() == {0: 30}


def test_a_takeover_of_a_transaction_that_does_not_end_gives_up_and_says_so(
    left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    transaction = left.begin(range(30, 44), stored=43)
    monkeypatch.setattr("sparkmirror.flow.mirror_maker.ABORTED_MS", 500)
    with pytest.raises(SparkmirrorError, match=r"transactions are open on cluster B .* nothing is taken over"):
        left.take_over()
    transaction.abort_transaction(60)
    assert left.take_over()[0].position == 30


def test_what_cannot_be_told_is_repeated_and_named(left: Left) -> None:
    left.copied(0, written=50, copied=44, stored=29, value="same")
    admin = admin_of(left.target)
    deleted = admin.delete_records([Place(left.copy, 0, 5)])  # or the log as a whole would decide
    assert [one.result(60).low_watermark for one in deleted.values()] == [5]
    left.copied(1, written=50, copied=44, stored=29)
    left.write(left.target, left.copy, 1, [1000])  # somebody else
    arrived = left.take_over()
    for number, reason in ((0, "equal"), (1, "is not what the source has")):
        event = arrived[number].event
        assert arrived[number].position == 30
        assert event is not None
        assert (event.kind, event.first, event.last) == (Kind.MAY_REPEAT, 30, 49)
        assert reason in event.text
    repeated = [one for one in left.known().events.values() if one.event.kind is Kind.MAY_REPEAT]
    assert {one.partition.partition for one in repeated} == {0, 1}


def test_a_target_that_has_lost_the_end_of_the_copy_gets_it_again_and_the_event_says_how_much(left: Left) -> None:
    left.copied(0, written=50, copied=20, stored=29)
    left.copied(1, written=30, copied=20, stored=29)  # the source rests
    arrived = left.take_over()
    for number in (0, 1):
        event = arrived[number].event
        assert (arrived[number].position, arrived[number].last) == (20, (19, 19))
        assert event is not None
        assert event.kind is Kind.TARGET_TAIL_LOST
        assert "source offsets 20 to 29 are copied again, 10 in all" in event.text
    state = left.known()
    assert {place.partition: one.position for place, one in state.progress.items()} == {0: 20, 1: 20}
    assert "of 2 partitions the target had lost the end" in str([one.event.text for one in state.events.values()])


def test_a_position_that_the_source_never_reached_begins_anew_and_says_so(left: Left) -> None:
    left.copied(0, written=10, copied=10, stored=29)
    arrived = left.take_over()
    assert arrived[0].position == 0
    assert arrived[0].event is not None
    assert "MirrorMaker 2 stood at source offset 30, and the source ends at 10" in arrived[0].event.text


def test_a_first_start_takes_over_unasked_and_says_so_once(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    left.copied(1, written=50, copied=44, stored=29)
    assert left.start() == {0: 30, 1: 44}
    state = left.known()
    (event,) = (one.event for one in state.events.values())
    assert event.kind is Kind.TAKEN_OVER
    assert event.text.startswith(
        "2 partitions of 1 topics were taken over from MirrorMaker 2, at its positions in the "
    )
    assert left.flow.stored_positions.topic in event.text
    assert state.elsewhere is None
    with connected(left.flow, role="test") as sides:
        assert find(sides, state, "mm2.properties") is None  # it has positions of its own now
    assert left.start() == {0: 30, 1: 44}


def test_a_first_start_takes_over_only_what_is_certainly_this_flows(left: Left) -> None:
    left.copied(0, written=50, copied=0, stored=29)  # the target was deleted since
    assert left.start(replace(left.flow, stored_positions=replace(left.flow.stored_positions, takeover=False))) == {}
    assert left.start() == {}
    left.copied(1, written=50, copied=44, stored=29)
    chosen = StartPlaces(position=StartPlace(kind=Beginning.LATEST))
    assert left.start(replace(left.flow, start=chosen)) == {}
    assert left.start(replace(left.flow, topics=("another",))) == {}
    assert left.start() == {1: 44}


def test_under_kept_names_records_of_applications_are_not_taken_for_mirror_makers(left: Left) -> None:
    flow = replace(left.flow, policy=PolicyChoice(kind=PolicyKind.IDENTITY))
    create_topic(left.target, left.topic, 2, KEPT)
    left.copied(0, written=50, copied=44, stored=29)  # under another name, as the policy was then
    left.write(left.target, left.topic, 0, range(1000, 1010))
    assert left.start(flow) == {}
    left.write(left.target, left.topic, 0, range(44))
    assert set(left.start(flow)) == {0}


def test_a_takeover_that_did_not_end_is_finished_by_the_next_start(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    left.copied(1, written=50, copied=44, stored=29)
    left.start()
    with connected(left.flow, role="test") as sides:
        assert sides.store is not None
        sides.store.follow()
        last = sides.store.state.progress[TopicPartition(left.topic, 1)]
        topic = left.flow.stored_positions.topic
        sides.store.write([Elsewhere(topic=topic, time_ms=WHEN, pending=True, unasked=True)], tombstones=[last.key])
    assert left.start() == {0: 30, 1: 44}
    assert left.known().elsewhere is None


def test_a_flow_that_has_copied_takes_over_what_it_has_no_position_of(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    assert left.start() == {0: 30}
    left.copied(1, written=50, copied=44, stored=29)
    left.write(left.target, left.copy, 0, [1])  # the flow's own, for a takeover of all would see it
    assert {number: one.position for number, one in left.take_over().items()} == {1: 44}
    assert left.start() == {0: 30, 1: 44}


def test_offset_syncs_decide_among_equal_records_and_translate_what_was_before(
    left: Left, lab_cluster: Callable[[str], Cluster]
) -> None:
    left.copied(0, written=50, copied=44, stored=29, value="same")
    syncs = f"mm2-offset-syncs.{left.alias}.internal"
    producer = Producer({"bootstrap.servers": left.target.bootstrap_servers, "log_level": 3})
    for upstream in (0, 20, 40):
        sync = OffsetSync(partition=TopicPartition(left.topic, 0), upstream=upstream, downstream=upstream)
        producer.produce(syncs, sync.value, sync.key)
    assert producer.flush(60) == 0
    arrived = left.take_over()
    assert (arrived[0].position, arrived[0].event, arrived[0].last) == (44, None, (43, 43))

    offsets = {"behind": 25, "on-a-sync": 20, "level": 44, "ahead": 50}
    place = TopicPartition(left.topic, 0)
    committed = {f"{left.alias}-{group}": {place: Committed(offset)} for group, offset in offsets.items()}
    commit_offsets(lab_cluster("A"), committed).complete()
    with connected(left.flow, role="test") as sides:
        observed = GroupLook(sides, patience_s=0).look(target=True)
    told = {group: explain_group(observed, f"{left.alias}-{group}")[0] for group in offsets}
    assert {group: line.translated for group, line in told.items()} == {
        "behind": 21,
        "on-a-sync": 20,
        "level": 44,
        "ahead": -1,
    }
    assert "approximate" in told["behind"].text
    assert told["level"].standing is Standing.TRANSLATED
    assert "approximate" not in told["level"].text


def test_what_is_not_there_is_refused_with_a_remedy(left: Left) -> None:
    def refused(flow: FlowConfig, topic: str = "") -> str:
        with pytest.raises(ConfigError) as found:
            moving_in.check(flow, "mm2.properties", topic=topic)
        return str(found.value)

    left.copied(0, written=5, copied=5, stored=4)
    other = replace(left.flow.stored_positions, connector="other")
    told = refused(replace(left.flow, stored_positions=other))
    assert f"has no positions of connector 'other' with source '{left.alias}'" in told
    assert "it has those of connector 'MirrorSourceConnector'" in told
    assert "set mm2.connector.name" in told
    assert f"the topic nowhere is on no cluster where it could be: B, {left.alias}" in refused(left.flow, "nowhere")
    assert "--offsets-topic" in refused(replace(left.flow, stored_positions=StoredPositions(topic="")))


def test_a_hand_over_writes_what_mirror_maker_reads_and_a_start_is_refused_once_it_copied(
    left: Left, lab_cluster: Callable[[str], Cluster]
) -> None:
    left.copied(0, written=50, copied=44, stored=29)
    left.take_over()
    dry = moving_out.hand_over(left.flow, "mm2.properties", dry_run=True)
    topic = left.flow.stored_positions.topic
    place = TopicPartition(left.topic, 0)
    assert {one.partition: one.offset for one in dry.stored} == {place: 43}
    assert read_stored(lab_cluster("B"), topic, 60_000) == {left.owner: {place: 29}}
    with pytest.raises(ConfigError, match="what MirrorMaker 2 writes there cannot be told from that"):
        moving_out.hand_over(replace(left.flow, homeward_back=True), "mm2.properties")
    moving_out.hand_over(left.flow, "mm2.properties")
    assert read_stored(lab_cluster("B"), topic, 60_000) == {left.owner: {place: 43}}
    assert left.known().elsewhere.topic == topic
    moving_out.hand_over(left.flow, "mm2.properties")  # nothing has happened in between

    left.write(left.target, left.copy, 0, range(44, 46))  # MirrorMaker 2 goes on
    with pytest.raises(ConfigError, match=r"positions are with MirrorMaker 2.*does not end where the flow left it"):
        moving_out.hand_over(left.flow, "mm2.properties")
    arrived = left.take_over()
    assert (arrived[0].position, arrived[0].event) == (46, None)


def test_a_takeover_that_did_not_end_is_done_again(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    left.copied(0, written=50, copied=44, stored=29)

    def dies(*_: object) -> Progress:
        raise RuntimeError("the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(moving_in, "_progress", dies)
        with pytest.raises(RuntimeError):
            left.take_over()
    with pytest.raises(ConfigError, match="a takeover from there did not end"):
        moving_out.hand_over(left.flow, "mm2.properties")
    assert left.take_over()[0].position == 44


def test_a_flow_without_positions_cannot_be_handed_over(left: Left) -> None:
    with pytest.raises(ConfigError, match="the flow has no positions"):
        moving_out.hand_over(left.flow, "mm2.properties")


def test_of_two_takeovers_at_once_the_later_one_writes_nothing(left: Left, monkeypatch: pytest.MonkeyPatch) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    rivals = [left.take_over]

    def slow(*given):
        while rivals:
            rivals.pop()()
        return compare(*given)

    monkeypatch.setattr("sparkmirror.flow.moving_in.compare", slow)
    with pytest.raises(ConfigError, match="the flow has positions of its own"):
        left.take_over()
    state = left.known()
    assert state.progress[TopicPartition(left.topic, 0)].position == 30
    assert state.elsewhere is None


def test_what_mirror_maker_copied_of_new_topics_keeps_a_flow_that_was_handed_over_from_going_on(left: Left) -> None:
    left.copied(0, written=50, copied=30, stored=29)
    left.flow = replace(left.flow, topics=(f"{left.alias}-.*",))
    left.take_over()
    moving_out.hand_over(left.flow, "mm2.properties")
    moving_out.hand_over(left.flow, "mm2.properties")  # nobody has copied
    create_topic(left.source, f"{left.alias}-new")
    create_topic(left.target, f"{left.alias}.{left.alias}-new")
    moving_out.hand_over(left.flow, "mm2.properties")
    left.write(left.target, f"{left.alias}.{left.alias}-new", 0, range(3))
    with pytest.raises(ConfigError, match=f"{left.alias}-new-0 does not end where the flow left it"):
        moving_out.hand_over(left.flow, "mm2.properties")

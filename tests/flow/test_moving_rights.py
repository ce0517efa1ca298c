"""Moving from MirrorMaker 2 and back with exactly the rights that are printed, and what is said when one is gone.

MirrorMaker 2's part is written here in its own bytes; the mirror's user is asked for what it may do by real brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from sparkmirror.cli.acls import by_cluster
from sparkmirror.config import FlowConfig, Side, load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import Kind
from sparkmirror.flow import moving_in, moving_out
from sparkmirror.flow.first_start import FirstStart, first_starts
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import open_flow
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.unasked import Unasked
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.offsets.state import JournalState
from tests.flow.rights import GUARDED, allow, forbid
from tests.flow.running import Running, admin_of, count, create_topic, ends, until, write_file
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE = AclOperation.READ, AclOperation.WRITE
CREATE, DESCRIBE = AclOperation.CREATE, AclOperation.DESCRIBE
WHEN = 1_700_000_000_000
KEPT = {"retention.ms": "-1"}
"""Records of that time would be gone as soon as the broker looks."""
WORKERS = "a-mm2"
OFFSETS, SYNCS = "mm2-offsets.a.internal", "mm2-offset-syncs.g.internal"


@dataclass(frozen=True)
class Right:
    """A right that can be taken, and what has to be said of it then."""

    cluster: LabCluster
    kind: ResourceType
    name: str
    operation: AclOperation
    told: str

    def take(self) -> None:
        forbid(self.cluster, self.kind, self.name, self.operation)

    def give(self) -> None:
        allow(self.cluster, self.kind, self.name, self.operation)


@dataclass(frozen=True)
class Move:
    """A flow of one topic: MirrorMaker 2 copied 44 of 50 records, and has the 30th on record."""

    source: LabCluster
    target: LabCluster
    topic: str
    file: Path

    @property
    def flow(self) -> FlowConfig:
        return load([self.file]).flows[0]

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    def prepare(self) -> None:
        create_topic(self.source, self.topic, config=KEPT)
        create_topic(self.target, f"a.{self.topic}", config=KEPT)
        self.write(self.source, self.topic, 50)
        self.write(self.target, f"a.{self.topic}", 44)
        create_topic(self.target, OFFSETS, 5)
        create_topic(self.source, SYNCS)
        owner = Owner(connector="MirrorSourceConnector", cluster=Alias("a"))
        stored = StoredOffset(owner=owner, partition=self.place, offset=29)
        self.produce(self.target, OFFSETS, stored.key, stored.value)
        sync = OffsetSync(partition=self.place, upstream=20, downstream=20)
        self.produce(self.source, SYNCS, sync.key, sync.value)

    def write(self, cluster: LabCluster, topic: str, total: int) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(total):
            producer.produce(topic, b"v%d" % number, timestamp=WHEN + number)
        assert producer.flush(60) == 0

    def produce(self, cluster: LabCluster, topic: str, key: bytes, value: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2"})
        producer.produce(topic, value, key)
        assert producer.flush(60) == 0

    def grant_exactly(self, side: Side, cluster: LabCluster, *, hand_over: bool = False) -> None:
        (needed,) = by_cluster(load([self.file]), side, hand_over=hand_over)
        for one in needed.grants:
            operations = [AclOperation(int(each)) for each in one.operations]
            pattern = ResourcePatternType(int(one.pattern))
            allow(cluster, ResourceType(int(one.kind)), one.name, *operations, pattern=pattern)

    def refusal(self) -> str:
        """Why a first start would not begin, or ""."""
        with connected(self.flow, role="test") as sides:
            try:
                Unasked(self.flow, sides.source, sides.target, str(self.file)).look(JournalState())
            except SparkmirrorError as refused:
                return str(refused)
        return ""

    def ordered(self) -> str:
        """Why it cannot be taken over by an order, or ""."""
        try:
            moving_in.check(self.flow, str(self.file))
        except SparkmirrorError as refused:
            return str(refused)
        return ""

    def start(self) -> JournalState:
        """As a first start opens the flow; what is on record then."""
        with connected(self.flow, role="test") as sides:
            ours = (self.flow, sides.source, sides.target, str(self.file), "run", Identities(str(self.file)))
            unasked = Unasked(self.flow, sides.source, sides.target, str(self.file))
            opened = open_flow(*ours, elsewhere=unasked.look)
            assert unasked.take_over(opened) is not None
            return open_flow(*ours).store.state

    def never_started(self) -> bool:
        with connected(self.flow, role="test") as sides:
            return record(sides) is None

    def first_start(self) -> FirstStart:
        (found,) = first_starts(load([self.file]))
        return found

    def hand_over(self, *, dry_run: bool = False) -> str:
        """Why it cannot be handed over, or ""."""
        try:
            moving_out.hand_over(self.flow, str(self.file), dry_run=dry_run)
        except SparkmirrorError as refused:
            return str(refused)
        return ""


def names(refusal: Callable[[], str], told: str) -> None:
    """Waits until brokers know what was taken, and the refusal says so."""
    until(lambda: told in refusal(), told, 240)


@pytest.fixture
def move(topic: Callable[..., str], tmp_path: Path) -> Iterator[Move]:
    name = topic("moved")
    source, target = start_all([f"{name}-source", f"{name}-target"], security=("SASL_PLAIN",), config=GUARDED)
    clusters = {"a": source.client_properties("SASL_PLAIN"), "g": target.client_properties("SASL_PLAIN")}
    groups = {"groups": f"{name}-.*"}  # not the workers' own, of which the right to read would let them be seen
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->g": name}, groups)
    found = Move(source, target, name, file)
    found.prepare()
    yield found
    source.stop()
    target.stop()


def test_a_first_start_takes_over_with_exactly_these_rights_and_names_each_that_is_gone(move: Move) -> None:
    move.grant_exactly(Side.SOURCE, move.source)
    move.grant_exactly(Side.TARGET, move.target)
    until(lambda: move.first_start().positions == ((move.place, 30),), "the rights are there")
    assert move.first_start().text == (
        f"takes over from MirrorMaker 2: 1 partitions of 1 topics ({move.topic}), at its positions in {OFFSETS} on g"
    )
    copy = f"a.{move.topic}"
    for right in (
        Right(move.target, TOPIC, OFFSETS, READ, f"allow READ on Topic {OFFSETS} to this user, since the target"),
        Right(move.target, GROUP, WORKERS, DESCRIBE, f"allow DESCRIBE on Group {WORKERS} to this user"),
        Right(move.source, TOPIC, SYNCS, READ, f"allow READ on Topic {SYNCS} to this user"),
        Right(move.source, TOPIC, move.topic, READ, f"allow READ on Topic {move.topic} to this user"),
        Right(move.target, TOPIC, copy, READ, f"allow READ on Topic {copy} to this user"),
    ):
        right.take()
        names(move.refusal, right.told)
        right.give()
        until(lambda: not move.refusal(), "the right is back")
    assert move.never_started()

    state = move.start()
    assert state.progress[move.place].position == 44
    assert {one.event.kind for one in state.events.values()} == {Kind.TAKEN_OVER}
    assert state.inherited[move.place].points, "MirrorMaker 2's offset syncs are kept"
    following = move.first_start()
    assert (following.text, following.failure) == ("goes on at its own positions", "")


def test_positions_that_may_not_be_seen_are_not_taken_for_positions_that_are_not_there(move: Move) -> None:
    move.grant_exactly(Side.SOURCE, move.source)
    move.grant_exactly(Side.TARGET, move.target)
    until(lambda: not move.refusal(), "the rights are there")
    forbid(move.target, TOPIC, OFFSETS, READ)
    hidden = until(move.refusal, "the topic is hidden")
    assert "TOPIC_AUTHORIZATION_FAILED" in hidden
    assert "without it the flow cannot see whether MirrorMaker 2 copied them, and does not begin" in hidden
    assert "mm2.takeover.enabled=false" in hidden
    assert f"allow READ on Topic {OFFSETS}" in move.ordered()
    checked = sparkmirror("check", move.file, "--connect")
    assert checked.returncode == 2
    assert f"a->g: a start is refused: cluster g, {OFFSETS}: TOPIC_AUTHORIZATION_FAILED" in checked.stderr
    assert f"allow READ on Topic {OFFSETS}" in sparkmirror("plan", move.file).stdout

    allow(move.target, TOPIC, OFFSETS, DESCRIBE)  # it is seen, and cannot be read
    until(lambda: f"{OFFSETS}-" in move.ordered(), "the topic is seen, and a partition of it cannot be read")
    assert f"allow READ on Topic {OFFSETS} to this user, since the target topics of a->g have records" in move.refusal()
    forbid(move.target, TOPIC, OFFSETS, DESCRIBE)

    emptied = admin_of(move.target).delete_topics([f"a.{move.topic}"])
    for future in emptied.values():
        future.result(60)
    until(lambda: not move.refusal(), "a target without records needs nothing of MirrorMaker 2")
    assert "begins as the file says" in move.first_start().text


def test_a_copy_that_may_not_be_seen_is_not_taken_for_one_that_is_empty(move: Move) -> None:
    move.grant_exactly(Side.SOURCE, move.source)
    move.grant_exactly(Side.TARGET, move.target)
    until(lambda: not move.refusal(), "the rights are there")
    copy = f"a.{move.topic}"
    for operation in (READ, WRITE, AclOperation.ALTER):
        forbid(move.target, TOPIC, copy, operation)
    until(lambda: f"allow READ on Topic {copy} to this user" in move.refusal(), "the copy is hidden")
    for operation in (READ, WRITE, AclOperation.ALTER):
        allow(move.target, TOPIC, copy, operation)
    until(lambda: not move.refusal(), "the copy is seen")
    forbid(move.source, TOPIC, move.topic, READ)
    until(lambda: f"allow READ on Topic {move.topic} to this user" in move.refusal(), "the source topic is hidden")


def test_a_hand_over_succeeds_with_exactly_these_rights_and_is_refused_before_it_marks_the_flow(move: Move) -> None:
    move.grant_exactly(Side.SOURCE, move.source, hand_over=True)
    move.grant_exactly(Side.TARGET, move.target, hand_over=True)
    until(lambda: not move.refusal(), "the rights are there")
    moving_in.take_over(move.flow, str(move.file))
    rehearsed = partial(move.hand_over, dry_run=True)
    taken = (
        Right(move.target, TOPIC, OFFSETS, READ, f"allow READ on Topic {OFFSETS} to this user"),
        Right(move.target, TOPIC, OFFSETS, WRITE, f"allow WRITE on Topic {OFFSETS} to this user"),
        Right(move.target, GROUP, WORKERS, DESCRIBE, f"allow DESCRIBE on Group {WORKERS} to this user"),
    )
    for right in taken:
        right.take()
        names(rehearsed, right.told)
        assert right.told in move.hand_over()
        right.give()
        until(lambda: not rehearsed(), "the right is back")
    for right in taken[:2]:
        right.take()
    names(rehearsed, "allow READ and WRITE on Topic")
    for right in taken[:2]:
        right.give()
    assert move.first_start().text == "goes on at its own positions", "no refusal has marked the flow"

    for future in admin_of(move.target).delete_topics([OFFSETS]).values():
        future.result(60)
    until(lambda: not ends(move.target, OFFSETS), "the topic is gone")
    forbid(move.target, TOPIC, OFFSETS, CREATE)
    names(rehearsed, f"allow CREATE on Topic {OFFSETS}")
    allow(move.target, TOPIC, OFFSETS, CREATE)
    until(lambda: not rehearsed(), "CREATE is back")
    assert not move.hand_over()
    until(lambda: count(move.target, OFFSETS) == 1, "the position is in the topic")
    assert "handed over" in move.first_start().text


def test_a_run_waits_for_a_right_that_the_takeover_lacks_and_copies_nothing_twice(move: Move) -> None:
    move.grant_exactly(Side.SOURCE, move.source)
    move.grant_exactly(Side.TARGET, move.target)
    until(lambda: not move.refusal(), "the rights are there")
    forbid(move.target, TOPIC, OFFSETS, READ)
    names(move.refusal, f"allow READ on Topic {OFFSETS}")
    copy = f"a.{move.topic}"
    with Running(move.file, log=move.file.with_name("run.log")) as mirror:
        until(lambda: f"allow READ on Topic {OFFSETS}" in " ".join(mirror.output.split()), "the right is named")
        assert ends(move.target, copy) == {0: 44}, "it has not begun"
        allow(move.target, TOPIC, OFFSETS, READ)
        until(lambda: count(move.target, copy) >= 50, "it has taken over")
        mirror.stop_in_time()
    assert "taken over from MirrorMaker 2" in mirror.output
    assert count(move.target, copy) == 50
    refused = sparkmirror("hand-over", move.file)
    assert refused.returncode != 0
    assert f"allow WRITE on Topic {OFFSETS} to this user" in " ".join(refused.stderr.split())
    move.grant_exactly(Side.TARGET, move.target, hand_over=True)
    names(lambda: sparkmirror("hand-over", move.file, "--dry-run").stdout, "1 positions would be written")
    handed = sparkmirror("hand-over", move.file)
    assert (handed.returncode, "1 positions written" in handed.stdout) == (0, True), handed.stderr

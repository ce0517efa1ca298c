"""What a running mirror does with topics beside copying them: properties that change, topics that go and come back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer

from sparkmirror.config import Drift
from sparkmirror.duties.configs import TopicConfigs
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.flow.schedule import Schedule
from sparkmirror.flow.sides import connected
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Alias, FlowName
from tests.flow.running import Running, create_topic, ends, set_limit, until, write_file
from tests.flow.test_events import delete_topic, read_all, records, told
from tests.flow.test_flows import config_of

pytestmark = pytest.mark.kafka


def write(cluster: LabCluster, topic: str, values: Sequence[bytes]) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "message.max.bytes": 5_000_000}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


@pytest.mark.slow
def test_properties_and_deletions_follow_the_source_while_records_are_copied(cluster_a, cluster_b, topic, tmp_path):
    kept, gone = topic("duty-kept"), topic("duty-gone")
    for name in (kept, gone):
        create_topic(cluster_a, name)
        write(cluster_a, name, records(20))
    file = write_file(
        tmp_path / "mm2.properties",
        {"e": cluster_a, "f": cluster_b},
        {"e->f": f"{kept},{gone}"},
        {
            "sync.topic.configs.enabled": "true",
            "sync.topic.configs.interval.seconds": "2",
            "sync.topic.deletes.enabled": "true",
        },
    )

    def holds(name: str, wanted: Sequence[bytes]) -> None:
        until(lambda: read_all(cluster_b, f"e.{name}") == {0: list(wanted)}, f"{len(wanted)} records in {name}")

    with Running(file, log=tmp_path / "run.log") as mirror:
        holds(kept, records(20))
        holds(gone, records(20))

        # A record that only fits after a change of a property which comes while the mirror runs.
        set_limit(cluster_a, kept, 3_000_000)
        large = b"x" * 2_000_000
        write(cluster_a, kept, [large])
        until(lambda: config_of(cluster_b, f"e.{kept}")["max.message.bytes"] == "3000000", "the property follows")
        holds(kept, [*records(20), large])

        delete_topic(cluster_a, gone)
        until(lambda: not ends(cluster_b, f"e.{gone}"), "the copy goes")
        until(lambda: "goes too, as sync.topic.deletes.enabled says" in mirror.output, "the end is told")
        write(cluster_a, kept, records(5))
        holds(kept, [*records(20), large, *records(5)])
        assert not ends(cluster_b, f"e.{gone}"), "nobody creates it again"

        create_topic(cluster_a, gone)
        write(cluster_a, gone, records(7, 1_000))
        holds(gone, records(7, 1_000))
        mirror.stop_in_time()

    assert mirror.output.count(f"~ f: topic e.{kept}  max.message.bytes: 1048588 (default) -> 3000000") == 1
    assert mirror.output.count(f"- f: topic e.{gone}  deleted: its source topic {gone} is gone") == 1
    assert "Traceback" not in mirror.output
    flow = told(file)
    assert {event.kind for event in flow.events if event.topic == gone} >= {"source-deleted", "source-recreated"}
    problems = {duty.name: duty.problems for duty in flow.duties}
    assert problems["topic configs"] == problems["topic deletions"] == ()


def tells(mirror: Running, text: str) -> bool:
    return text in mirror.output


def test_properties_do_not_follow_a_topic_whose_name_the_target_had_before(cluster_a, cluster_b, topic, tmp_path):
    """Whoever creates a topic on the source chooses a name: retention of a second would take all that was there."""
    before, new = topic("duty-before"), topic("duty-new")
    create_topic(cluster_b, before)
    write(cluster_b, before, records(20))
    for name in (before, new):
        create_topic(cluster_a, name, 3 if name == before else 1, config={"retention.ms": "86400000"})
        write(cluster_a, name, records(5, 1_000))
    file = write_file(
        tmp_path / "mm2.properties",
        {"q": cluster_a, "r": cluster_b},
        {"q->r": f"{before},{new}"},
        {
            "sync.topic.configs.enabled": "true",
            "sync.topic.configs.interval.seconds": "1",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        },
    )
    left_alone = f"! r: topic {before}  holds records that this flow has not copied"
    as_large = f"partitions from 1 on of {before} are not copied"
    for run in ("first", "again"):
        with Running(file, log=tmp_path / f"{run}.log") as mirror:
            until(lambda: read_all(cluster_b, before) == {0: [*records(20), *records(5, 1_000)]}, "it is copied there")
            until(lambda: config_of(cluster_b, new)["retention.ms"] == "86400000", "properties of the copy follow")
            until(partial(tells, mirror, left_alone), "the other is told of", 40)
            until(partial(tells, mirror, as_large), "that it gets no partitions is told")
            mirror.stop_in_time()
        assert config_of(cluster_b, before)["retention.ms"] == "604800000"
        assert mirror.output.count(left_alone) == 1
        assert ends(cluster_b, before) == {0: 25}


def test_a_round_that_only_tells_changes_nothing_on_record(lab_flow, cluster_a, cluster_b, topic_name):
    flow = replace(
        lab_flow,
        name=FlowName(source=Alias("g"), target=Alias("h")),
        source=replace(lab_flow.source, alias=Alias("g")),
        target=replace(lab_flow.target, alias=Alias("h")),
        topics=(topic_name,),
        heartbeats_replication=False,
    )
    create_topic(cluster_a, topic_name, config={"retention.ms": "1000"})
    create_topic(cluster_b, f"g.{topic_name}", config={"retention.ms": "2000"})
    with connected(flow, role="test") as sides:
        assert sides.store is not None
        ensure_internal_topics(flow, sides.target)
        for drift, changed in ((Drift.REPORT, 0), (Drift.MEND, 1)):
            asked = replace(flow, sync_topic_configs_drift=drift)
            schedule = Schedule(asked, lambda mine: (TopicConfigs(mine),), name="test", note=print)
            assert schedule.once() == ()
            sides.store.follow()
            (round_,) = sides.store.state.duties.values()
            assert (round_.name, round_.changed) == ("topic configs", changed)

"""Positions are handed over only while both clusters still have what was copied, or what holds that back is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.errors import LinkError
from sparkmirror.flow.still_copied import Answers, why_not
from sparkmirror.lab.cluster import start
from sparkmirror.model import NO_OFFSET, UNKNOWN, Reached, TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from tests.duties.groups import FLOW
from tests.flow.running import Running, admin_of, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, records
from tests.flow.test_torn_while_idle import cut_log, write
from tests.invoking import sparkmirror

HERE = TopicPartition("orders", 0)
COPIED = Progress(
    partition=HERE,
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=90,
    next_sequence=90,
    target=89,
    reached=Reached(4, 100),
)
WHOLE = Answers(target_ends={HERE: 100})
OFFSETS = "mm2-offsets."
NOT_KNOWN = "whether A and B still have what was copied of orders-0 is not known:"
NO_ANSWER = LinkError(cluster="B", address="", reason="no answer")


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({}, ""),
        ({"target_ends": {HERE: 130}}, ""),
        ({"lost": {HERE: 120}}, ""),
        ({"recreated": ["others"]}, ""),
        ({"recreated": ["orders"]}, "topic orders on A was deleted and created again since it was copied"),
        (
            {"parted": {HERE: 50}},
            "the log of orders-0 on A does not have offsets 50 to 89 any more as they were copied",
        ),
        (
            {"recreated_copies": [HERE]},
            "topic A.orders on B was deleted and created again since it was copied to",
        ),
        ({"target_ends": {HERE: 99}}, "the target has lost the end of A.orders-0, from offset 99 on"),
        (
            {"lost": {HERE: 50}, "target_ends": {HERE: 120}},
            "the target has lost the end of A.orders-0, from offset 50 on",
        ),
        ({"unanswered": {HERE: NO_ANSWER}}, f"{NOT_KNOWN} {NO_ANSWER}"),
        ({"target_ends": {}}, f"{NOT_KNOWN} B does not tell where A.orders-0 ends"),
    ],
)
def test_a_position_does_not_hold_where_either_log_is_another_one_or_nobody_tells(answers: dict[str, Any], why: str):
    found = why_not(FLOW, {HERE: COPIED}, replace(WHOLE, **answers))
    assert found == ({HERE: why} if why else {})


def test_a_partition_of_which_nothing_was_copied_has_nothing_to_lose():
    empty = replace(COPIED, position=0, target=NO_OFFSET, reached=UNKNOWN)
    assert why_not(FLOW, {HERE: empty}, Answers(target_ends={HERE: 0})) == {}


@pytest.mark.kafka
def test_a_flow_is_not_handed_over_after_the_source_or_the_copy_has_lost_its_end_and_grown_or_was_created_again(
    cluster_a, topic, tmp_path
):
    there, back = topic("out"), topic("lost")
    create_topic(cluster_a, there, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{there}"
        create_topic(one, back, 1)
        clusters = {"a": cluster_a, "o": one}
        file = write_file(tmp_path / "mm2.properties", clusters, {"a->o": there, "o->a": back}, {"tasks.max": "1"})
        for number in (0, 50):
            write(cluster_a, there, records(50, number))
            write(one, back, records(50, number))
            with Running(file, log=tmp_path / f"{number}.log", options=("--once",)) as mirror:
                assert mirror.wait() == 0, mirror.tail()
        whole = sparkmirror("hand-over", file, "--dry-run")
        assert whole.returncode == 0, whole.stderr
        broker.kill()
        cut_log(broker, copy, 50)
        cut_log(broker, back, 50)
        broker.start()
        until(lambda: (ends(one, copy), ends(one, back)) == ({0: 50}, {0: 50}), "records are really lost")
        for name in (copy, back):
            write(one, name, records(70, 1_000))
        told = {
            "a->o": f"the target has lost the end of {copy}-0, from offset 50 on",
            "o->a": f"the log of {back}-0 on o does not have offsets 50 to 99 any more as they were copied",
        }
        for flow, reason in told.items():
            for words in (["--dry-run"], []):
                done = sparkmirror("hand-over", file, "--flow", flow, *words)
                assert done.returncode == 2, done.stdout
                assert reason in " ".join(done.stderr.split())
                assert "start the flow once more" in " ".join(done.stderr.split())
        delete_topic(cluster_a, there)
        create_topic(cluster_a, there, 1)
        write(cluster_a, there, records(150, 2_000))
        done = sparkmirror("hand-over", file, "--flow", "a->o")
        assert done.returncode == 2, done.stdout
        assert f"topic {there} on a was deleted and created again since it was copied" in " ".join(done.stderr.split())
        for cluster in (one, cluster_a):
            assert not [name for name in admin_of(cluster).list_topics(timeout=30).topics if name.startswith(OFFSETS)]

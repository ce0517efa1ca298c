"""From MirrorMaker 2's connectors on real Kafka Connect workers to sparkmirror and back: nothing lost, nothing twice.

Connectors of people's own in JSON, and those of a Strimzi resource.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.lab.cluster import LabCluster
from tests.flow.connect_workers import SOURCE, OnConnect, OnStrimzi, OnWorkers
from tests.flow.mirror_makers import Production
from tests.flow.moves import Move, assert_all_once_and_in_order
from tests.flow.running import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def move(cluster_a: LabCluster, cluster_b: LabCluster, topic, tmp_path: Path) -> Move:
    return Move(cluster_a, cluster_b, topic("connect"), tmp_path)


def test_connectors_that_are_stopped_on_a_worker_that_lives_go_over_and_come_back_without_loss(move: Move) -> None:
    flow = OnConnect(move)
    flow.write_files(**{"mm2.offsets.topic": flow.offsets})
    with Production(move.source, move.topics) as production, flow.worker() as worker:
        worker.run(flow.connectors)
        move.goes_on()
        refused = move.command("run")
        assert refused.returncode == 2, refused.stderr
        running = f"the connector {flow.names[SOURCE]} runs on the workers of the group {move.alias}-connect"
        assert running in " ".join(refused.stderr.split())
        worker.stop_connectors(*flow.connectors)
        until(lambda: not move.refusal(), "the tasks are given back")
        with move.run("in") as mirror:
            move.goes_on()
            assert mirror.stop(seconds=60) == 0, mirror.tail()
        assert (
            f"6 partitions of 3 topics were taken over from MirrorMaker 2, at its positions in the topic {flow.offsets}"
            in move.taken_over()
        )
        handed = move.command("hand-over")
        assert handed.returncode == 0, handed.stderr
        assert f"6 positions written to {flow.offsets}" in handed.stdout
        worker.resume_connectors(*flow.connectors)
        move.goes_on()
        refused = move.command("run")
        assert refused.returncode == 2
        assert "the flow's positions are with MirrorMaker 2" in " ".join(refused.stderr.split())
        production.stop()
        move.catches_up()
        worker.stop()
    assert_all_once_and_in_order(move, production)
    assert move.named() == {}


@pytest.mark.parametrize("setup", [OnConnect, OnStrimzi])
@pytest.mark.long
def test_after_a_crash_of_the_worker_nothing_is_lost_and_another_worker_goes_on(
    move: Move, setup: type[OnConnect | OnStrimzi]
) -> None:
    flow: OnWorkers = setup(move)
    with Production(move.source, move.topics) as production:
        with flow.worker() as worker:
            worker.run(flow.connectors)
            until(lambda: worker.has_stored(flow.names[SOURCE], 6), "positions are stored")
            move.goes_on()
            worker.kill()
        assert "MirrorMaker 2 runs" in move.refusal(flow.offsets)
        until(lambda: not move.refusal(flow.offsets), "the group of workers is empty")
        with move.run("in", *flow.take_over) as mirror:
            move.goes_on()
            assert mirror.stop(seconds=60) == 0, mirror.tail()
        assert f"at its positions in the topic {flow.offsets}" in move.taken_over()
        named = move.named()
        handed = move.command("hand-over", *flow.hand_over)
        assert handed.returncode == 0, handed.stderr
        with flow.worker() as worker:
            worker.run(flow.connectors)
            move.goes_on()
            production.stop()
            move.catches_up()
            worker.stop()
    assert_all_once_and_in_order(move, production, named)

"""From the real MirrorMaker 2 to sparkmirror and back, while producers go on: nothing lost, nothing twice."""

from __future__ import annotations

import pytest

from tests.flow.mirror_makers import Production
from tests.flow.moves import Move, assert_all_once_and_in_order
from tests.flow.running import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def move(cluster_a, cluster_b, topic, tmp_path) -> Move:
    return Move(cluster_a, cluster_b, topic("moving"), tmp_path)


def test_after_a_clean_stop_nothing_is_lost_or_twice_on_the_way_in_and_out(move: Move) -> None:
    with Production(move.source, move.topics) as production:
        with move.mirror_maker("first") as mirror_maker:
            move.goes_on()
            refused = move.command("run")
            assert refused.returncode == 2, refused.stderr
            assert "MirrorMaker 2 runs: its group of workers" in " ".join(refused.stderr.split())
            mirror_maker.stop()
        assert "6 partitions of 3 topics" in move.command("plan").stdout
        with move.run("in") as mirror:
            move.goes_on()
            assert mirror.stop(seconds=60) == 0, mirror.tail()
        told = (
            f"6 partitions of 3 topics were taken over from MirrorMaker 2, at its positions in the topic {move.offsets}"
        )
        assert told in mirror.output
        assert told in move.taken_over()
        handed = move.command("hand-over")
        assert handed.returncode == 0, handed.stderr
        assert "6 positions written to mm2-offsets." in handed.stdout
        with move.mirror_maker("out") as mirror_maker:
            move.goes_on()
            refused = move.command("run")
            assert refused.returncode == 2
            assert "the flow's positions are with MirrorMaker 2" in " ".join(refused.stderr.split())
            production.stop()
            move.catches_up()
            mirror_maker.stop()
    assert_all_once_and_in_order(move, production)
    assert move.named() == {}


def test_after_a_crash_of_both_nothing_is_lost_and_what_may_be_twice_is_named(move: Move) -> None:
    with Production(move.source, move.topics) as production:
        with move.mirror_maker("first") as mirror_maker:
            move.goes_on()
            mirror_maker.kill()
        assert "MirrorMaker 2 runs: its group of workers" in move.refusal()
        until(lambda: not move.refusal(), "the group of workers is empty")
        with move.run("in", "--take-over", "mm2") as mirror:
            move.goes_on()
            mirror.kill()
        production.stop()
        with move.run("rest", "--once") as mirror:
            assert mirror.wait() == 0, mirror.tail()
    assert_all_once_and_in_order(move, production, move.named())

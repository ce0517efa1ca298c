"""From the real MirrorMaker 2 to sparkmirror and back, while producers go on: nothing lost, nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping

import pytest

from sparkmirror.config import load
from sparkmirror.errors import ConfigError
from sparkmirror.flow import moving_in
from sparkmirror.lab.cluster import LabCluster
from tests.flow.mirror_makers import SETTINGS, MirrorMaker, Production, read_numbers
from tests.flow.running import Running, count, create_topic, until, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

MORE = 600


class Move:
    """A flow of three topics, with the file that MirrorMaker 2 and sparkmirror share."""

    def __init__(self, source: LabCluster, target: LabCluster, alias: str, directory) -> None:
        self.source, self.target, self.directory = source, target, directory
        self.topics = {f"{alias}-{name}": partitions for name, partitions in (("one", 1), ("two", 2), ("three", 3))}
        for name, partitions in self.topics.items():
            create_topic(source, name, partitions)
        self.copies = [f"{alias}.{name}" for name in self.topics]
        flows = {f"{alias}->b": f"{alias}-.*"}
        self.flow, self.offsets = f"{alias}->b", f"mm2-offsets.{alias}.internal"
        self.file = write_file(directory / "mm2.properties", {alias: source, "b": target}, flows, SETTINGS)

    def command(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sparkmirror", name, str(self.file), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def mirror_maker(self, name: str) -> MirrorMaker:
        return MirrorMaker(self.file, self.directory / f"{name}.log")

    def run(self, name: str, *options: str) -> Running:
        return Running(self.file, log=self.directory / f"{name}.log", options=options)

    def copied(self) -> int:
        return count(self.target, *self.copies)

    def goes_on(self) -> None:
        """Waits until some hundred records more are there."""
        before = self.copied()
        until(lambda: self.copied() >= before + MORE, "the copy goes on")

    def catches_up(self) -> None:
        until(lambda: self.copied() >= count(self.source, *self.topics), "the copy is complete")

    def named(self) -> dict[tuple[str, int], range]:
        """Which source offsets may be there twice, as the flow's record says."""
        (flow,) = json.loads(self.command("status", "--json").stdout)["flows"]
        assert {event["kind"] for event in flow["events"]} <= {"may-repeat", "taken-over"}
        named = [event for event in flow["events"] if event["kind"] == "may-repeat"]
        return {(one["topic"], one["partition"]): range(one["first"], one["last"] + 1) for one in named}

    def taken_over(self) -> str:
        """What the flow's record tells of its takeover."""
        (flow,) = json.loads(self.command("status", "--json").stdout)["flows"]
        (event,) = (event for event in flow["events"] if event["kind"] == "taken-over")
        return str(event["text"])

    def refusal(self) -> str:
        """Why it cannot be taken over now, or ""."""
        try:
            moving_in.check(load([self.file]).flows[0], str(self.file))
        except ConfigError as refused:
            return str(refused)
        return ""


@pytest.fixture
def move(cluster_a, cluster_b, topic, tmp_path) -> Move:
    return Move(cluster_a, cluster_b, topic("moving"), tmp_path)


def assert_all_once_and_in_order(
    move: Move, production: Production, named: Mapping[tuple[str, int], range] | None = None
) -> None:
    """Every record is there once and in order, but for what is named: a record's number is its source offset."""
    found = read_numbers(move.target, move.copies)
    for (topic, number), written in production.written.items():
        copy = found[f"{topic.rsplit('-', 1)[0]}.{topic}", number]
        again = [one for one, times in Counter(copy).items() if times > 1]
        assert list(dict.fromkeys(copy)) == list(range(written)), f"{topic}-{number}"
        assert set(again) <= set((named or {}).get((topic, number), ())), f"{topic}-{number}"


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

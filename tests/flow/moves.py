"""One flow on its way between MirrorMaker 2 and sparkmirror, and what of it is checked on all of its data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow import moving_in
from sparkmirror.lab.cluster import LabCluster
from tests.flow.mirror_makers import SETTINGS, MirrorMaker, Production, read_numbers
from tests.flow.running import Running, count, create_topic, until, write_file

MORE = 600


class Move:
    """A flow of three topics, with the file that MirrorMaker 2 and sparkmirror share."""

    def __init__(
        self, source: LabCluster, target: LabCluster, alias: str, directory: Path, more: Mapping[str, str] | None = None
    ) -> None:
        self.source, self.target, self.alias, self.directory = source, target, alias, directory
        self.topics = {f"{alias}-{name}": partitions for name, partitions in (("one", 1), ("two", 2), ("three", 3))}
        for name, partitions in self.topics.items():
            create_topic(source, name, partitions)
        self.copies = [f"{alias}.{name}" for name in self.topics]
        flows = {f"{alias}->b": f"{alias}-.*"}
        self.flow, self.offsets = f"{alias}->b", f"mm2-offsets.{alias}.internal"
        self.files = [
            write_file(directory / "mm2.properties", {alias: source, "b": target}, flows, {**SETTINGS, **(more or {})})
        ]

    def command(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sparkmirror", name, *map(str, self.files), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def mirror_maker(self, name: str) -> MirrorMaker:
        return MirrorMaker(self.files[0], self.directory / f"{name}.log")

    def run(self, name: str, *options: str) -> Running:
        others = map(str, self.files[1:])
        return Running(self.files[0], log=self.directory / f"{name}.log", options=(*others, *options))

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

    def refusal(self, topic: str = "") -> str:
        """Why it cannot be taken over now, or "".

        Args:
            topic: Kafka Connect's topic of offsets, where the file does not tell it.
        """
        try:
            moving_in.check(load(self.files).flows[0], str(self.files[0]), topic=topic)
        except SparkmirrorError as refused:
            return str(refused)
        return ""


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

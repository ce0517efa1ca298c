"""What of a target's log was the flow's, by its leader epochs: a log that ends where it did has lost nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.duties import lost_copies
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import Reached, TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.source_history import UNDEFINED, EpochEnd
from tests.duties.groups import FLOW

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
PROGRESS = Progress(
    partition=HERE,
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=90,
    next_sequence=90,
    reached=Reached(4, 50),
)


@pytest.mark.parametrize(
    ("end", "lost"),
    [
        (EpochEnd(4, 50), {}),
        (EpochEnd(4, 70), {}),
        (EpochEnd(4, 49), {HERE: 49}),
        (EpochEnd(3, 60), {HERE: 60}),
        (EpochEnd(UNDEFINED, UNDEFINED), {HERE: 0}),
    ],
)
def test_a_log_has_lost_copies_where_it_is_shorter_or_of_another_epoch(
    monkeypatch: pytest.MonkeyPatch, end: EpochEnd, lost: dict[TopicPartition, int]
) -> None:
    asked: list[Any] = []

    def told(_target: Any, epochs: Any, _timeout_ms: int) -> Results[TopicPartition, EpochEnd]:
        asked.append(epochs)
        return Results(found=dict.fromkeys(epochs, end), failed={})

    monkeypatch.setattr(lost_copies, "believed_ends", told)
    target: Any = None
    assert lost_copies.lost_copies(FLOW, target, {HERE: PROGRESS}, 1_000).found == lost
    assert asked == [{THERE: 4}]
    unknown = replace(PROGRESS, reached=Reached())
    assert lost_copies.lost_copies(FLOW, target, {HERE: unknown}, 1_000).found == {}

"""How far logs went when groups went home, and what of that is lost: also where it was brought again since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.failover import brought
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import Reached, TopicPartition
from sparkmirror.offsets.source_history import EpochEnd
from tests.duties.groups import FLOW
from tests.duties.test_lost_copies import PROGRESS

THERE = TopicPartition("A.orders", 0)


def test_what_others_wrote_behind_the_last_copy_does_not_count_and_nothing_is_kept_of_an_empty_log():
    empty, unknown = replace(PROGRESS, reached=Reached(4, 0)), replace(PROGRESS, reached=Reached())
    assert brought.rows_of(FLOW, [PROGRESS, replace(PROGRESS, target=39), empty, unknown]) == [
        ["A.orders", 0, 4, 50],
        ["A.orders", 0, 4, 40],
    ]


@pytest.mark.parametrize(
    ("end", "lost"),
    [(EpochEnd(4, 50), {}), (EpochEnd(4, 70), {}), (EpochEnd(4, 49), {THERE: 49}), (EpochEnd(3, 60), {THERE: 60})],
)
def test_a_log_has_lost_copies_where_the_epoch_ends_before_them(monkeypatch, end, lost):
    def told(_cluster: Any, epochs: Any, _timeout_ms: int) -> Results[TopicPartition, EpochEnd]:
        assert epochs == {THERE: 4}
        return Results(found={THERE: end}, failed={})

    monkeypatch.setattr(brought, "believed_ends", told)
    cluster: Any = None
    assert brought.lost_since(cluster, brought.rows_of(FLOW, [PROGRESS]), 1_000) == lost

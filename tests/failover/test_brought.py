"""How far logs went when groups went home, and what of that is lost: also where it was brought again since."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.duties import lost_copies
from sparkmirror.failover import brought
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import Reached, TopicPartition
from sparkmirror.offsets.source_history import EpochEnd
from tests.duties.groups import FLOW
from tests.duties.test_lost_copies import PROGRESS

THERE = TopicPartition("A.orders", 0)
CLUSTER: Any = None


def test_what_others_wrote_behind_the_last_copy_does_not_count_and_nothing_is_kept_of_an_empty_log():
    empty, unknown = replace(PROGRESS, reached=Reached(4, 0)), replace(PROGRESS, reached=Reached())
    assert brought.rows_of(FLOW, [PROGRESS, replace(PROGRESS, target=39, target_id="t"), empty, unknown]) == [
        ["A.orders", 0, 4, 50, 50, ""],
        ["A.orders", 0, 4, 50, 40, "t"],
    ]


@pytest.fixture
def log(monkeypatch):
    """Gives a function that sets what the leader says of the epoch, and where records lie."""

    def says(end: EpochEnd, records: tuple[int, ...] = ()) -> None:
        def told(_cluster: Any, epochs: Any, _timeout_ms: int) -> Results[TopicPartition, EpochEnd]:
            assert epochs in ({}, {THERE: 4})
            return Results(found=dict.fromkeys(epochs, end), failed={})

        def there(_cluster: Any, offsets: Any, _timeout_ms: int) -> Results[TopicPartition, bool]:
            return Results(found={place: at in records for place, at in offsets.items()}, failed={})

        monkeypatch.setattr(lost_copies, "believed_ends", told)
        monkeypatch.setattr(lost_copies, "records_at", there)
        monkeypatch.setattr(brought, "ids_of_topics", lambda _cluster, names, _timeout_ms: dict.fromkeys(names, "t"))

    return says


@pytest.mark.parametrize(
    ("end", "records", "lost"),
    [
        (EpochEnd(4, 50), (), {}),
        pytest.param(EpochEnd(4, 70), (), {}, id="a later epoch has begun, or the log start has moved"),
        (EpochEnd(4, 49), (), {THERE: 49}),
        pytest.param(EpochEnd(3, 60), (49,), {THERE: 49}, id="another record lies there"),
        pytest.param(EpochEnd(3, 60), (), {}, id="the cleaner took the epoch's batches, and a replica was built since"),
    ],
)
def test_a_log_has_lost_copies_where_the_epoch_ends_before_them(log, end, records, lost):
    log(end, records)
    assert brought.lost_since(CLUSTER, brought.rows_of(FLOW, [PROGRESS]), 1_000) == lost


@pytest.mark.parametrize(
    ("end", "records", "lost"),
    [(EpochEnd(4, 45), (), {}), (EpochEnd(3, 45), (), {}), (EpochEnd(3, 60), (49,), {}), (EpochEnd(3, 38), (), {38})],
)
def test_what_lay_behind_the_last_copy_is_no_loss(log, end, records, lost):
    log(end, records)
    rows = brought.rows_of(FLOW, [replace(PROGRESS, target=39)])
    assert set(brought.lost_since(CLUSTER, rows, 1_000).values()) == set(lost)


@pytest.mark.parametrize(("topic_id", "lost"), [("t", {}), ("", {}), ("older", {THERE: 0})])
def test_a_topic_that_was_created_again_has_nothing_of_what_was_brought(log, topic_id, lost):
    log(EpochEnd(4, 70))
    rows = brought.rows_of(FLOW, [replace(PROGRESS, target_id=topic_id)])
    assert brought.lost_since(CLUSTER, rows, 1_000) == lost

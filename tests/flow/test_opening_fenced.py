"""What a driver that opens its flow learns of other runs: one that came later has the flow, and one that was there
since the clean end on record makes that end worth nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.errors import ConfigError, LinkError
from sparkmirror.flow.controller import Controller
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.repositioning import check_lost_runs
from sparkmirror.flow.writers import Writers
from sparkmirror.kafka.store import Store
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.records import Progress, Record


@pytest.mark.kafka
def test_who_is_shut_out_while_it_opens_does_not_take_the_flow_back(
    lab_flow: FlowConfig, lab_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = Store(lab_cluster("B"), internal_topic(lab_flow.name), lab_flow.admin_timeout_ms)
    acquire = Writers.acquire_all

    def and_another_comes(writers: Writers) -> tuple[Writer, ...]:
        later.own(f"sparkmirror.{lab_flow.name}.driver")
        return acquire(writers)

    monkeypatch.setattr(Writers, "acquire_all", and_another_comes)
    unused: Any = None  # it never begins to copy
    controller = Controller(
        lab_flow,
        file="mm2.properties",
        run="older",
        run_shift=unused,
        cancel=unused,
        cancel_shift=unused,
        room=unused,
        identities=Identities("mm2.properties"),
        once=False,
    )
    controller.start()
    assert controller.join(60), "it has ended"
    assert "another run has taken the flow over" in str(controller.failure)
    later.prove_at_once()


@pytest.mark.kafka
def test_a_clean_end_is_not_believed_once_the_internal_topic_has_lost_a_run_that_came_after_it(
    lab_flow: FlowConfig, lab_cluster: Any, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = replace(lab_flow, name=FlowName(source=Alias(topic("lost-runs")), target=Alias("B")))

    def opened() -> Opened:
        found = open_flow(flow, lab_cluster("A"), lab_cluster("B"), "file", "run", Identities("file"))
        found.store.follow()
        return found

    def ended(run: Opened) -> None:
        run.store.write([run.stopped()])

    ended(opened())
    older = opened()
    assert (older.clean, older.lost_runs) == (True, False)
    assert older.store.state.flow is not None
    kept: list[Record] = [older.store.state.flow, older.stopped()]
    ended(older)
    older.store.follow()
    check_lost_runs(lab_cluster("B"), older.store.state, flow, "file")
    newer = opened()
    assert (newer.clean, newer.lost_runs) == (True, False)
    newer.store.write(kept)  # what the topic says when it has lost all that the newer run wrote
    newer.store.follow()
    with pytest.raises(ConfigError, match="has lost what the newest runs wrote"):
        check_lost_runs(lab_cluster("B"), newer.store.state, flow, "file")
    newer.store.prove_at_once()  # whoever runs keeps the flow

    finds = opened()
    assert (finds.clean, finds.lost_runs, finds.exact_after) == (False, True, finds.generation - 1)
    (told,) = finds.store.state.events.values()
    assert "has lost its end" in told.event.text
    ended(finds)

    acquire = Writers.acquire_all

    def and_a_broker_goes_away(writers: Writers) -> tuple[Writer, ...]:
        acquire(writers)
        raise LinkError(cluster="B", address="", reason="gone")

    with monkeypatch.context() as broken:
        broken.setattr(Writers, "acquire_all", and_a_broker_goes_away)
        with pytest.raises(LinkError):
            opened()
    after = opened()
    assert (after.clean, after.lost_runs, after.exact_after) == (True, False, finds.exact_after)


@pytest.mark.kafka
def test_a_run_whose_start_the_internal_topic_has_lost_did_not_end_with_the_clean_end_of_the_one_before(
    lab_flow: FlowConfig, lab_cluster: Any, topic: Callable[[str], str]
) -> None:
    """Its driver lived on, and its lanes have put progress on record since."""
    flow = replace(lab_flow, name=FlowName(source=Alias(topic("lost-start")), target=Alias("B")))

    def opened() -> Opened:
        found = open_flow(flow, lab_cluster("A"), lab_cluster("B"), "file", "run", Identities("file"))
        found.store.follow()
        return found

    older = opened()
    before = older.store.state.flow
    assert before is not None
    older.store.write([older.stopped()])
    newer = opened()
    place = TopicPartition("orders", 0)
    progress = Progress(
        partition=place, writer=newer.first[0], generation=newer.generation, position=5, next_sequence=0
    )
    newer.store.write([before, older.stopped(), progress])

    finds = opened()
    assert (finds.clean, finds.lost_runs, finds.exact_after) == (False, True, newer.generation)
    assert finds.generation == newer.generation + 1
    (told,) = finds.store.state.events.values()
    assert "records of a run and not that of its start" in told.event.text

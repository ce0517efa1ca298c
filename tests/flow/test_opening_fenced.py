"""A driver that is shut out while it opens its flow ends: whoever came later has it."""

from __future__ import annotations

from typing import Any

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.flow.controller import Controller
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.writers import Writers
from sparkmirror.kafka.store import Store
from sparkmirror.model import Writer
from sparkmirror.naming import internal_topic


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

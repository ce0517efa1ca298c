"""The driver's look at a flow that it copies, with one part of the look failing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from threading import Event
from typing import NoReturn

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.copy.receipt import Receipt
from sparkmirror.errors import LinkError
from sparkmirror.flow.copying import Copying
from sparkmirror.flow.desk import Desk
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.room import Room
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import Alias, FlowName
from tests.flow.running import until


def looked(copying: Copying, condition: Callable[[], bool], what: str) -> None:
    def look() -> bool:
        copying.tick()
        return condition()

    until(look, what, 15)


@pytest.mark.kafka
def test_a_run_that_cannot_order_its_lanes_hears_all_the_same_that_another_has_the_flow(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str], monkeypatch
) -> None:
    source, target = lab_cluster("A"), lab_cluster("B")
    alias = Alias(topic("orders-fail"))
    flow = replace(lab_flow, name=FlowName(source=alias, target=Alias("B")), topics=(str(alias),))
    told: list[str] = []

    def opened(run: str) -> Opened:
        return open_flow(flow, source, target, "mm2.properties", run, Identities("mm2.properties"))

    def fails(*_: object) -> NoReturn:
        raise LinkError(cluster=target.alias, address="", reason="no orders today")

    over = Event()

    def copies_nothing(*_: object) -> tuple[Receipt, ...]:
        over.wait(60)
        return ()

    with ThreadPoolExecutor(1) as pool, ExitStack() as ending:
        ending.callback(over.set)
        desk = Desk(
            run="first",
            opening=0,
            once=False,
            room=lambda: Room(lanes=1, most=1),
            run_shift=copies_nothing,
            cancel_shift=lambda _: over.set(),
            pool=pool,
        )
        copying = Copying(flow, opened("first"), source, target, desk, told.append)
        monkeypatch.setattr(copying._ordering, "follow", fails)
        copying.begin()
        looked(copying, lambda: bool(told), "the look fails")
        assert "no orders today" in told[0]
        assert not copying.finished
        opened("second")
        looked(copying, lambda: copying.finished, "the first run hears of the second")
        assert "has taken the flow over" in copying.superseded

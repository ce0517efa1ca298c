"""Under which writer partitions go on; no cluster is asked here."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.copy.plan import PartitionPlan, group_of
from sparkmirror.flow.planning import Planning, on_replaced_ids
from sparkmirror.flow.positions import Resumed, Start
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState

HERE, THERE = TopicPartition("orders", 0), TopicPartition("orders", 1)
OLD, NEW, OTHER = (Writer(producer_id=1, epoch=32_001), Writer(producer_id=2, epoch=3), Writer(producer_id=9, epoch=7))
WRITERS = [OLD if group == group_of(HERE, 8) else OTHER for group in range(8)]
AFTERWARDS = [NEW if group == group_of(HERE, 8) else OTHER for group in range(8)]
WHERE = Resumed(position=500, writer=OLD, sequence=400, opened=True)


@pytest.mark.parametrize(
    ("writer", "writers", "replaced"),
    [
        (OLD, WRITERS, False),
        (OLD, AFTERWARDS, True),
        (NEW, AFTERWARDS, False),
        (replace(NEW, epoch=2), AFTERWARDS, False),
        (replace(OLD, epoch=2), AFTERWARDS, True),
    ],
)
def test_a_partition_rests_on_a_replaced_id_once_its_group_has_another(
    writer: Writer, writers: list[Writer], replaced: bool
):
    settled = {HERE: replace(WHERE, writer=writer), THERE: replace(WHERE, writer=writers[group_of(THERE, 8)])}
    assert on_replaced_ids(settled, writers) == ({HERE} if replaced else set())


class Opened:
    """What planning knows of a flow whose group of `HERE` is at the end of its epochs."""

    def __init__(self) -> None:
        self.generation = 6
        self.first = tuple(WRITERS)
        self.tells_writers = False
        self.signs = SimpleNamespace(haunted=False)
        self.store = SimpleNamespace(state=JournalState())
        self.source_id, self.target_id = "A", "B"
        group = group_of(HERE, 8)
        rotation = SimpleNamespace(old=OLD, new=NEW)
        self.writers = SimpleNamespace(to_rotate=(group,), rotate={group: rotation}.__getitem__)

    def raise_generation(self) -> None:
        self.generation += 1


def planning(opened: Opened) -> Planning:
    def endpoint(alias: str) -> Endpoint:
        client = ClientSettings(bootstrap_servers=("localhost:1",))
        return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)

    config = FlowConfig(name=FlowName(source=Alias("a"), target=Alias("b")), source=endpoint("a"), target=endpoint("b"))
    nobody: Any = None
    known: Any = opened
    return Planning(config, known, nobody, nobody, nobody, once=False)


def plan_of(where: Resumed) -> PartitionPlan:
    """As the start decides it."""
    return PartitionPlan(
        source=HERE,
        target_topic="a.orders",
        topic_id="",
        position=where.position,
        writer=where.writer,
        sequence=where.sequence,
        opened=where.opened,
    )


def progress(writer: Writer, generation: int, position: int) -> Progress:
    return Progress(partition=HERE, writer=writer, generation=generation, position=position, next_sequence=9)


def test_what_a_partition_writes_after_a_change_of_ids_is_always_newer_than_what_it_wrote_before():
    """It rested meanwhile, goes on, and is taken over: each of the three has progress that counts."""
    opened, state = Opened(), JournalState()
    subject = planning(opened)
    state.take(progress(OLD, opened.generation, 500))
    assert subject.change_ids({}) == {}
    (plan,) = subject._with_new_epochs((Start(plan=plan_of(WHERE)),), {HERE: WHERE})
    assert (plan.writer, plan.sequence, plan.opened, plan.position) == (NEW, 0, False, 500)
    state.take(progress(plan.writer, opened.generation, 600))
    assert state.progress[HERE].position == 600
    state.take(progress(replace(NEW, epoch=NEW.epoch + 1), opened.generation, 9_000))
    assert state.progress[HERE].position == 9_000


def test_a_partition_that_rested_goes_on_under_its_own_epoch_while_its_group_has_the_id():
    (plan,) = planning(Opened())._with_new_epochs((Start(plan=plan_of(WHERE)),), {HERE: WHERE})
    assert (plan.writer, plan.sequence, plan.opened) == (OLD, 400, True)


def test_a_change_of_ids_gives_those_that_are_drained_the_new_one_from_its_beginning():
    opened = Opened()
    changed = planning(opened).change_ids({HERE: plan_of(WHERE)})
    assert (changed[HERE].writer, changed[HERE].sequence, changed[HERE].opened) == (NEW, 0, False)
    assert opened.generation == 7

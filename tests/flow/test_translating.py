"""Offsets by hand, from a target that has lost the end of a copy, where no flow has seen that."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.duties.checked_maps import has_lost
from sparkmirror.errors import BrokerError
from sparkmirror.flow import translating
from sparkmirror.flow.translating import Lost, Translator, to_source
from sparkmirror.kafka.groups import GroupList
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.interleaved import FlowBack
from sparkmirror.offsets.translation import NotYet, Place, Reason, Translated, Translation
from tests.failover.test_changed_home import marked
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror
from tests.offsets.segments import offset_map

CUT = 7
COPIED = offset_map([(100, 0, 10)], 110)
LEFT = COPIED.before_target(CUT)


@pytest.mark.parametrize(
    ("committed", "lost", "expected"),
    [
        (5, Lost(target=CUT), Translated(105, Place.RECORD)),
        (7, Lost(target=CUT), Translated(107, Place.END)),
        (8, Lost(target=CUT), Translated(107, Place.LOST)),
        (30, Lost(target=CUT), Translated(107, Place.LOST)),
        (5, Lost(target=CUT, source=103), Translated(103, Place.PARTED)),
        (30, Lost(target=CUT, source=103), Translated(103, Place.LOST)),
    ],
)
def test_a_group_behind_the_loss_of_a_copy_goes_to_the_first_record_lost_and_is_not_called_exact(
    committed: int, lost: Lost, expected: Translation
) -> None:
    assert to_source(FlowBack(offsets=LEFT), None, committed, lost, settled=True) == expected


def test_the_same_where_the_flow_the_other_way_has_put_records_beside_them() -> None:
    flow = FlowBack(offsets=LEFT)
    back = FlowBack(offsets=offset_map([(10, 110, 20)], 30).below(CUT))
    found = to_source(flow, back, 25, Lost(target=CUT), settled=True)
    assert found == Translated(107, Place.LOST)


def test_no_group_goes_behind_what_the_source_has_lost_of_what_the_flow_the_other_way_had_put_there() -> None:
    back = FlowBack(offsets=offset_map([(0, 50, 30)], 30), lost=60)
    told = [to_source(FlowBack(offsets=offset_map([], 100)), back, at, Lost(), settled=True) for at in (5, 20)]
    assert told == [Translated(55, Place.RECORD), Translated(60, Place.PARTED)]


def test_a_group_of_a_broker_that_is_away_is_not_waited_for_as_long_as_an_answer_may_take(monkeypatch) -> None:
    asked: list[int] = []

    def lists(_cluster: object, timeout_ms: int, *, complete: bool = False) -> GroupList:
        asked.append(timeout_ms)
        if complete:
            raise BrokerError(code=15, name="not all groups can be listed", cluster="a")
        return GroupList({})

    monkeypatch.setattr(translating, "list_groups", lists)
    flow: Any = SimpleNamespace(_sides=SimpleNamespace(flow=SimpleNamespace(admin_timeout_ms=60_000)))
    cluster: Any = SimpleNamespace(alias="a")
    with pytest.raises(BrokerError, match="not all groups can be listed"):
        Translator._offsets(flow, cluster, "g")
    assert asked == [60_000, 15_000]


def test_only_copies_that_were_there_can_be_lost() -> None:
    taken_over = Inherited(partition=TopicPartition("t", 0), spans=((0, 20),), end=20)
    assert [has_lost(COPIED, None, at) for at in (9, 10)] == [True, False]
    assert [has_lost(offset_map([], 0), taken_over, at) for at in (19, 20)] == [True, False]
    assert to_source(FlowBack(offsets=offset_map([], 0)), None, 5, Lost(target=0), settled=True) == NotYet(
        Reason.NOTHING_MIRRORED
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_offsets_see_a_target_that_has_lost_copies_though_no_flow_has_run_since(cluster_b: LabCluster, topic, tmp_path):
    """Others have written at their offsets since."""
    name = topic("torn")
    groups = {f"{name}-{end}": int(end) for end in ("5", "7", "9", "12")}
    with start("y") as cluster:
        (broker,), copy = cluster.brokers, f"b.{name}"
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"b": cluster_b, "y": cluster}, {"b->y": name}, settings)
        old = marked("old", 10)
        create_topic(cluster_b, name, 1)
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            for number in (CUT, len(old)):
                write(cluster_b, name, old[len(mirrored(cluster, copy)) : number])
                until(lambda: mirrored(cluster, copy) == old[:number], "copied")  # noqa: B023 - at once
            mirror.stop_in_time()
        broker.kill()
        cut_log(broker, copy, CUT)
        broker.start()
        until(lambda: ends(cluster, copy) == {0: CUT}, "records are really lost")
        for value in marked("away", 8):
            write(cluster, copy, [value])
        for group, at in groups.items():
            commit(cluster, group, copy, {0: at})
            done = sparkmirror("offsets", file, "--group", group, "--reverse", "--apply", "--json")
            assert done.returncode == 0, done.stdout + done.stderr
            (line,) = json.loads(done.stdout)["partitions"]
            assert line["offset"] == min(at, CUT)
            assert line["text"].startswith("the first record whose copy was lost") == (at > CUT)
            assert committed(cluster_b, group, name) == {0: min(at, CUT)}

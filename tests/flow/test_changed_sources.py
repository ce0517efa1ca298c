"""Offsets by hand, where the source is another one by now than was copied, and no flow has seen it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config import load
from sparkmirror.flow.translating import open_translator
from sparkmirror.lab.cluster import start
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.translation import Place, Translated
from tests.failover.test_changed_home import marked
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AGAIN = "the topic was deleted and created again on the source"
LOST = "the source has lost the end of its log"


def asked(file: Path, group: str, *words: str, code: int = 0) -> dict[str, Any]:
    done = sparkmirror("offsets", file, "--group", group, "--flow", "x->b", "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


def offsets(said: dict[str, Any]) -> dict[str, tuple[int | None, str]]:
    return {one["topic"]: (one["offset"], one["text"]) for one in said["partitions"]}


@pytest.mark.long
def test_offsets_see_a_source_that_has_lost_what_was_copied_though_no_flow_has_run_since(cluster_b, topic, tmp_path):
    cut, again = topic("cut"), topic("again")
    back, end, on = (f"{cut}-{each}" for each in ("back", "end", "on"))
    with start("x") as cluster:
        (broker,) = cluster.brokers
        file = write_file(
            tmp_path / "mm2.properties",
            {"x": cluster, "b": cluster_b},
            {"x->b": f"{cut}|{again}"},
            {"tasks.max": "1", "groups": f"{cut}-.*", "heartbeats.replication.enabled": "false"},
        )
        old, new = marked("old", 10), marked("new", 15)
        for name in (cut, again):
            create_topic(cluster, name, 1)
            for value in old:
                write(cluster, name, [value])
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: all(mirrored(cluster_b, f"x.{name}") == old for name in (cut, again)), "copied")
            mirror.stop_in_time()
        for name in (cut, again):
            commit(cluster_b, back, f"x.{name}", {0: 4})
            commit(cluster_b, end, f"x.{name}", {0: 10})
        assert asked(file, end, "--reverse")["unchecked"] is None
        assert [offset for offset, _ in offsets(asked(file, end, "--reverse")).values()] == [10, 10]
        broker.kill()
        (flow,) = load([file]).flows
        with open_translator(flow) as translator:
            assert translator.translate(TopicPartition(f"x.{cut}", 0), 4, reverse=True) == Translated(4, Place.RECORD)
            assert translator.unchecked.startswith("whether x still has what was copied")
        cut_log(broker, cut, 7)
        broker.start()
        until(lambda: ends(cluster, cut) == {0: 7}, "records are really lost")
        delete_topic(cluster, again)
        create_topic(cluster, again, 1)
        for name in (cut, again):
            write(cluster, name, new)
        at_end = offsets(asked(file, end, "--reverse", "--apply", code=1))
        assert at_end[f"x.{cut}"][0] == 7
        assert LOST in at_end[f"x.{cut}"][1]
        assert at_end[f"x.{again}"][0] is None
        assert AGAIN in at_end[f"x.{again}"][1]
        assert (committed(cluster, end, cut), committed(cluster, end, again)) == ({0: 7}, {})
        assert offsets(asked(file, back, "--reverse"))[f"x.{cut}"] == (4, "the record itself")
        for offset, there in ((3, 3), (7, 7), (9, None)):
            commit(cluster, on, cut, {0: offset})
            commit(cluster, on, again, {0: 3})
            said = offsets(asked(file, on))
            assert said[cut][0] == there
            assert (LOST in said[cut][1]) == (offset >= 7)
            assert said[again][0] is None
            assert AGAIN in said[again][1]

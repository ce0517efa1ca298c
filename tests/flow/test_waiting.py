"""``sparkmirror wait``: a copy that is gone is not complete, though the flow has nothing to write and no error."""

from __future__ import annotations

import pytest

from tests.flow.running import Running, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, records
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror


@pytest.mark.kafka
@pytest.mark.slow
def test_a_copy_that_was_deleted_is_not_complete_nor_when_somebody_has_made_it_anew(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("gone")
    copy, settings = f"a.{name}", {"tasks.max": "1", "on.target.recreated": "stop"}
    create_topic(cluster_a, name, 1)
    write(cluster_a, name, records(10))
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name}, settings)

    def waited() -> tuple[int, str]:
        done = sparkmirror("wait", file, "--caught-up", "--timeout", "0")
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: mirrored(cluster_b, copy) == records(10), "copied")
        until(lambda: waited()[0] == 0, "complete", 60)
        mirror.stop_in_time()
    delete_topic(cluster_b, copy)
    code, said = waited()
    assert (code, f"{name}-0: its copy {copy}-0 does not exist" in said) == (1, True), said
    create_topic(cluster_b, copy, 1)
    until(lambda: ends(cluster_b, copy) == {0: 0}, "it is there")
    code, said = waited()
    assert (code, f"b has lost what had been copied to {copy}-0 from offset 0 on" in said) == (1, True), said


@pytest.mark.kafka
@pytest.mark.slow
def test_what_others_wrote_to_a_copy_that_the_flow_back_has_not_begun_with_is_missing(
    cluster_a, cluster_b, topic, tmp_path
):
    """The flow back looks for topics every 600 s, and the copy is younger; another one is written to by nobody."""
    old, young, quiet = (topic(stem) for stem in ("old", "young", "quiet"))
    settings = {"tasks.max": "1", "b->a.homeward.enabled": "true", "b->a.refresh.topics.interval.seconds": "600"}
    settings |= {"a->b.refresh.topics.interval.seconds": "1", "heartbeats.replication.enabled": "false"}
    topics = {"a->b": f"{old}|{young}|{quiet}", "b->a": f"{old}-local|{old}|{young}|{quiet}"}
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, topics, settings)
    for cluster, name in ((cluster_a, old), (cluster_b, f"{old}-local")):
        create_topic(cluster, name, 1)
        write(cluster, name, records(1))

    def waited(*more: str) -> tuple[int, str]:
        done = sparkmirror("wait", file, "--caught-up", "--timeout", "0", *more)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: mirrored(cluster_a, f"b.{old}-local") == records(1), "the flow back copies")
        for name in (young, quiet):
            create_topic(cluster_a, name, 1)
            write(cluster_a, name, records(10))
            until(lambda: mirrored(cluster_b, f"a.{name}") == records(10), "copied")  # noqa: B023 - at once
        until(lambda: waited()[0] == 0, "nobody has written to the copies", 60)
        write(cluster_b, f"a.{young}", records(5))
        for more in ((), ("--topic", f"a.{young}")):
            code, said = waited(*more)
            assert code == 1, said
            assert f"b->a: 5 records of 1 partitions are missing, most in a.{young}-0" in said
        until(lambda: waited("--topic", f"a.{quiet}")[0] == 0, "the flow forth has told who writes it", 60)
        mirror.stop_in_time()

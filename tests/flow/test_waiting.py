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

"""The topics of a run, and what the mirror says of them."""

from __future__ import annotations

import pytest

from sparkmirror.lab.chaos.mirror_faults import all_stand
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.schedule import Side
from sparkmirror.lab.chaos.site import copies


def test_copies_have_the_alias_in_their_names_or_the_names_of_their_topics() -> None:
    assert {copy.copy for copy in copies(Naming.RENAMED) if copy.flow == "b->a"} == {
        "b.back-small",
        "b.back-transactions",
    }
    assert all(copy.copy == copy.topic for copy in copies(Naming.KEPT))


@pytest.mark.parametrize("naming", Naming)
@pytest.mark.parametrize("side", Side)
def test_every_topic_of_a_cluster_is_written_by_one(naming: Naming, side: Side) -> None:
    own = [copy.topic for copy in copies(naming) if copy.source is side]
    own += [copy.copy for copy in copies(naming) if copy.target is side]
    assert len(own) == len(set(own))


@pytest.mark.parametrize(
    ("output", "stands"),
    [
        pytest.param("back-small-0 stands still: no\nback-small-1 stands still: no", True, id="both"),
        pytest.param("a: back-small-0 stands still: no\nstands still: back-small-1: no", True, id="named by the error"),
        pytest.param("back-small-0 stands still: no", False, id="one of two"),
        pytest.param("back-small-0 stands still: no\nstands still: back-small-11: no", False, id="another number"),
        pytest.param("", False, id="none"),
    ],
)
def test_a_topic_stands_still_when_the_mirror_has_said_so_of_each_partition(output: str, stands: bool) -> None:
    (copy,) = (each for each in copies(Naming.RENAMED) if each.topic == "back-small")
    assert all_stand(copy, output) is stands

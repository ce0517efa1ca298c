"""How the tests are dealt out to several processes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tests.conftest import _Dealing


class Node:
    """A process of pytest; it keeps what it was told to run."""

    def __init__(self) -> None:
        self.told: list[list[int]] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.told.append(indices)


def test_a_process_in_the_place_of_one_that_died_gets_nothing_before_it_has_told_which_tests_it_has_found() -> None:
    """All that were there may have died by then: what they had is dealt out at once."""
    node, file = Node(), "tests/test_dealing.py"
    dealing: Any = object.__new__(_Dealing)
    dealing.__dict__["_texts"] = {file: ""}
    dealing.assigned_work, dealing.registered_collections = {node: {}}, {}
    dealing.workqueue = OrderedDict({file: {f"{file}::test_one": False}})
    dealing._assign_work_unit(node)
    assert (node.told, list(dealing.workqueue)) == ([], [file])
    dealing.registered_collections[node] = [f"{file}::test_other", f"{file}::test_one"]
    dealing._assign_work_unit(node)
    assert (node.told, list(dealing.workqueue)) == ([[1]], [])

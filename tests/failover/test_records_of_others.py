"""Records of operations that somebody else has written to the internal topic: they reach no further than the flow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.cli.failover import _write
from sparkmirror.config import ClientSettings
from sparkmirror.failover import divergence, failback, fence
from sparkmirror.failover.mirrors import Mirrors
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.states import Keep, Step, file_name
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.offsets.ledger import Operation as OnRecord
from tests.failover.test_unfinished import BEGUN

MADE = ["TOPIC", "orders", "LITERAL", "User:*", "*", "WRITE"]
RULE = AclBinding(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:*", "*", Operation.WRITE, Permission.DENY)
OF_OTHERS: list[Any] = [
    ["GROUP", "orders", "LITERAL", "User:*", "*", "WRITE"],
    ["TOPIC", "pay", "PREFIXED", "User:*", "*", "WRITE"],
    ["TOPIC", "*", "LITERAL", "User:*", "*", "WRITE"],
    ["TOPIC", "payroll", "LITERAL", "User:mallory", "*", "WRITE"],
    ["TOPIC", "payroll", "LITERAL", "User:*", "10.0.0.1", "WRITE"],
    ["TOPIC", "payroll", "LITERAL", "User:*", "*", "READ"],
    ["TOPIC", "payroll", "LITERAL", "User:*", "*", "ALL"],
    ["CLUSTER", "kafka-cluster", "LITERAL", "User:*", "*", "ALTER"],
    ["TOPIC", ["orders"], "LITERAL", "User:*", "*", "WRITE"],
    [*MADE, "more"],
    [],
    "orders",
    None,
]


def named(operation_id: str, **facts: Any) -> OnRecord:
    return replace(BEGUN, id=operation_id, step=Step.DONE.name, facts=facts)


@pytest.mark.parametrize(
    "operation_id",
    ["../escaped", "/tmp/escaped", "..", "", "a/b-1", "failover-1/../x", "failover-1\0", "-1", "x\n-1"],
)
def test_an_id_that_is_no_name_of_a_file_makes_none(operation_id: str):
    assert file_name(named(operation_id)) == "operation-of-others"


@pytest.mark.parametrize("operation_id", ["failover-20261127-031500", "switchover-1"])
def test_files_are_called_as_their_operation(operation_id: str):
    assert file_name(named(operation_id)) == operation_id


def test_a_report_lies_in_its_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr("sparkmirror.failover.report.as_markdown", lambda _: "text")
    monkeypatch.setattr("sparkmirror.failover.report.as_dict", lambda _: {})
    from sparkmirror.failover.report import Report

    inside = tmp_path / "reports"
    inside.mkdir()
    for failure in ("", "it failed"):
        flow: Any = None
        report = Report(flow=flow, operation=replace(named("../escaped"), failure=failure), partitions=(), moves=())
        assert {path.parent for path in _write(report, inside)} == {inside}
    assert [path.name for path in tmp_path.iterdir()] == ["reports"]


def test_records_are_exported_to_the_directory_of_this_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The one on record is of another machine, or of somebody who wants files to be there."""
    told: list[str] = []
    places: list[tuple[Path, str]] = []

    def export(_cluster: Any, _flow: Any, _found: Any, directory: Path, stem: str, _without: Any) -> int:
        places.append((directory, stem))
        return 0

    monkeypatch.setattr(divergence, "export", export)
    monkeypatch.setattr("sparkmirror.failover.comparison.mirrors_there", lambda *_: Mirrors())
    sides: Any = SimpleNamespace(source=None, target=None, flow=None, store=SimpleNamespace())
    monkeypatch.setattr(failback, "Procedure", lambda *_, **__: None)
    operator: Any = None
    work = failback.Failback(sides, sides, "file", operator, told.append, str(tmp_path))
    operation = named("../escaped", divergent_as=Keep.EXPORT.value, directory="/etc")
    work._keep([], 1, operation)
    work._keep([], 2, operation)
    assert places == [(tmp_path, "operation-of-others"), (tmp_path, "operation-of-others-2")]
    kept = Options(directory=str(tmp_path)).facts
    assert Options.of(kept | {"directory": "/etc"}).directory == ""


def test_only_rules_of_the_form_that_an_operation_makes_are_read():
    assert fence.rules_of([*OF_OTHERS, MADE]) == (RULE,)
    assert fence.rules_of(fence.rows_of([RULE])) == (RULE,)


def test_rules_of_others_stay_and_that_is_told(monkeypatch: pytest.MonkeyPatch):
    taken: list[AclBinding] = []
    monkeypatch.setattr(fence, "take_down", lambda _cluster, rules, _timeout_ms: taken.extend(rules))
    cluster = Cluster("a", ClientSettings(bootstrap_servers=("127.0.0.1:1",)), role="test")
    try:
        assert fence.lift(cluster, [MADE], 1) == "writing to 1 topics is no longer denied on a"
        told = fence.lift(cluster, [*OF_OTHERS, MADE], 1)
        assert fence.lift(cluster, OF_OTHERS, 1).startswith("writing to 0 topics")
    finally:
        cluster.close()
    assert taken == [RULE, RULE]
    assert told.endswith(f"; {len(OF_OTHERS)} rules on record are none that an operation makes, and stay as they are")

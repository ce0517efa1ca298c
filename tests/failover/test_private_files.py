"""Reports and exports are their owner's alone, whatever the umask and whatever lies there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkmirror.batches import columns
from sparkmirror.cli import failover
from sparkmirror.failover import divergence
from sparkmirror.failover.divergence import Divergent
from sparkmirror.failover.private_files import make_private_directory, private_file
from sparkmirror.model import TopicPartition
from tests.failover.test_report import operation, report


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_report_is_read_by_its_owner_alone(tmp_path: Path):
    directory = tmp_path / "reports" / "today"
    failover._check_writable(directory)
    paths = failover._write(report(tmp_path, operation()), directory)
    assert [mode(path) for path in paths] == [0o600, 0o600]
    assert (mode(directory), mode(directory.parent)) == (0o700, 0o700)
    assert sorted(directory.iterdir()) == sorted(paths)


def test_exported_records_are_read_by_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    record = {"offset": 1, "timestamp": 2, "timestamp_type": 0, "key": b"k", "value": b"v", "headers": []}
    monkeypatch.setattr(
        divergence, "_tables", lambda *_: [pa.Table.from_pylist([record], schema=columns.column_schema())]
    )
    found, flow = [Divergent(TopicPartition("orders", 0), 1, 2)], report(tmp_path, operation()).flow
    cluster: Any = None  # what it would be read from stands above
    assert divergence.export(cluster, flow, found, tmp_path / "new", "failback-1", ()) == 1
    assert mode(tmp_path / "new") == 0o700
    assert mode(tmp_path / "new" / "failback-1.orders-0.jsonl") == 0o600


def test_a_directory_that_is_there_stays_as_it_is(tmp_path: Path):
    tmp_path.chmod(0o755)
    make_private_directory(tmp_path)
    assert mode(tmp_path) == 0o755


def test_what_lies_there_is_replaced_and_not_written_into(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    for name in ("link", "file"):
        path = tmp_path / name
        path.symlink_to(elsewhere) if name == "link" else path.write_text("old")
        with private_file(path) as file:
            file.write("new")
        assert path.read_text() == "new"
        assert (mode(path), path.is_symlink()) == (0o600, False)
    assert elsewhere.read_text() == "mine"


def test_a_file_that_could_not_be_written_whole_leaves_what_was_there(tmp_path: Path):
    path = tmp_path / "export"
    path.write_text("old")

    def write_half() -> None:
        with private_file(path) as file:
            file.write("half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]

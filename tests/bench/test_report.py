"""Medians, ratios within a round, and verdicts of the benchmark's report."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from report import Kernel, Sample, rows, show, write
from workloads import Peer


def _samples(figure: str, workload: str, by_peer: dict[Peer, list[float]]) -> list[Sample]:
    return [
        Sample(workload=workload, peer=peer, round=number, figures={figure: value})
        for peer, values in by_peer.items()
        for number, value in enumerate(values, 1)
    ]


RATES = _samples(
    "records_per_s",
    "small",
    {Peer.MIRROR_MAKER: [100, 200, 150], Peer.SPARKMIRROR: [600, 1_000, 900], Peer.RAW: [1_000, 2_000, 1_800]},
)

KERNELS = [
    Kernel(what="index", value=12.5, unit="M batches/s", target=10, met=True),
    Kernel(what="load", value=900, unit="ms", target=300, met=False),
]


def test_ratios_are_formed_within_a_round() -> None:
    (row,) = rows(RATES)
    assert row.medians == {Peer.MIRROR_MAKER: 150, Peer.SPARKMIRROR: 900, Peer.RAW: 1_800}
    assert row.ratios == {Peer.MIRROR_MAKER: 6.0, Peer.RAW: 0.5}


def test_targets_are_judged_by_their_peer() -> None:
    (row,) = rows(RATES)
    assert [(str(target), met) for target, met in row.verdicts] == [("≥ 5 ×", True), ("≥ 0.6 ×", False)]


def test_a_target_without_a_peer_is_judged_by_the_figure_itself() -> None:
    (row,) = rows(_samples("worker_mib", "memory", {Peer.SPARKMIRROR: [299.0]}))
    assert [met for _, met in row.verdicts] == [True]
    (row,) = rows(_samples("worker_mib", "memory", {Peer.SPARKMIRROR: [301.0]}))
    assert [met for _, met in row.verdicts] == [False]


def test_a_run_that_failed_leaves_no_ratio() -> None:
    failed = Sample(workload="small", peer=Peer.MIRROR_MAKER, round=1, figures={}, problem="it ended\nsee its log")
    (row,) = rows([failed, *_samples("records_per_s", "small", {Peer.SPARKMIRROR: [10.0]})])
    assert row.ratios == {}
    assert row.verdicts == ()


def test_results_are_written_as_json_and_markdown(tmp_path: Path) -> None:
    as_json, as_text = write(RATES, KERNELS, tmp_path, "name")
    document = json.loads(as_json.read_text())
    assert len(document["samples"]) == len(RATES)
    assert document["rows"][0]["ratios"] == {"mirrormaker2": 6.0, "raw": 0.5}
    assert [(kernel["what"], kernel["met"]) for kernel in document["kernels"]] == [("index", True), ("load", False)]
    text = as_text.read_text()
    assert (
        "| 5 M records of 100 B | records/s | 150 | 900 | 1,800 | 6.00 × | 0.50 × | ≥ 5 × MM2 ✓, ≥ 0.6 × raw ✗ |"
        in text
    )
    assert "| index | 12.50 M batches/s | 10 M batches/s ✓ |" in text
    assert "| load | 900.00 ms | 300 ms ✗ |" in text


def test_kernels_alone_make_a_report(tmp_path: Path) -> None:
    _, as_text = write([], KERNELS, tmp_path, "name")
    assert "MirrorMaker" not in as_text.read_text()


def test_the_share_of_the_line_is_a_figure_of_its_own() -> None:
    (row,) = rows(_samples("line_share", "link-one", {Peer.MIRROR_MAKER: [0.016], Peer.SPARKMIRROR: [0.79]}))
    assert [(str(target), met) for target, met in row.verdicts] == [("≥ 0.8", False)]


def test_the_tables_fit_a_wide_terminal() -> None:
    console = Console(width=150, record=True)
    show(RATES, KERNELS, console)
    text = console.export_text()
    assert "records/s" in text
    assert "12.50 M batches/s" in text

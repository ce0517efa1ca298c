"""The benchmark: MirrorMaker 2, sparkmirror and the raw limit on the same two fresh brokers, in turn, in one run.

    SCALE=0.1 bench/run.py --rounds 1 --only small --only latency --peer sparkmirror

README.md says what is measured and how. The exit code is 1 when a run failed, whatever the figures are.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

import measure
import report
from brokers import Side, fill, two_clusters
from groups import groups
from peers import Run, again, launch
from ready import ready
from recovery import recovery
from sparkmirror.lab.referee import compare
from transactions import fill_transactions, transactions, written
from workloads import SCALE, WORKLOADS, Kind, Peer, Workload, write_json_lines

RESULTS = Path(__file__).parent / "results"
START_RECORDS = 1_000
KERNELS, KERNELS_S = "kernels", 600.0
WRITES_WHILE_IT_RUNS = (Kind.LATENCY, Kind.MEMORY, Kind.RECOVERY, Kind.TRANSACTIONS)


class Bench:
    """One run of the benchmark on two clusters."""

    def __init__(self, source: Side, target: Side, directory: Path, console: Console) -> None:
        self.source, self.target, self.directory, self.console = source, target, directory, console
        self.samples: list[report.Sample] = []

    def workload(self, workload: Workload, peers: Sequence[Peer], rounds: int) -> None:
        """Runs every peer ``rounds`` times on the same records, the order turned round each time."""
        size = 0.0
        for number in range(1, min(rounds, workload.rounds) + 1):
            for peer in peers if number % 2 else peers[::-1]:
                topic = f"bench-{workload.name}"
                if not size or workload.kind in WRITES_WHILE_IT_RUNS:
                    self.source.clear()
                    self.source.create(topic, workload.partitions)
                    size = self._fill(workload, topic)
                began = time.monotonic()
                figures, problem = self._run(workload, peer, topic, size, check=number == 1)
                sample = report.Sample(
                    workload=workload.name, peer=peer, round=number, figures=figures, problem=problem
                )
                self.samples.append(sample)
                self._tell(sample, time.monotonic() - began)
                self.target.clear()
                self.source.clear(keep=topic)
        self.source.clear()

    def _fill(self, workload: Workload, topic: str) -> float:
        """Writes the backlog; returns the mean bytes of a record."""
        if workload.kind in (Kind.RATE, Kind.GROUPS, Kind.FAILOVER):
            payload = self.directory / "payload.json" if workload.json else None
            size = write_json_lines(payload) if payload else float(workload.size)
            self.console.print(f"[dim]{workload.title}: writing {workload.scaled_records:,} records", highlight=False)
            fill(self.source, topic, workload, workload.scaled_records, payload)
            return size
        if workload.kind is Kind.TRANSACTIONS:
            self.console.print(f"[dim]{workload.title}: writing {written(workload):,} records", highlight=False)
            fill_transactions(self.source, topic, workload)
        if workload.kind is Kind.START:
            fill(self.source, topic, workload, START_RECORDS, None)
        return float(workload.size)

    def _run(
        self, workload: Workload, peer: Peer, topic: str, size: float, *, check: bool
    ) -> tuple[measure.Figures, str]:
        if workload.kind is Kind.MAP:
            try:
                return measure.load_map(self.target, topic, workload.scaled_records), ""
            except measure.RunFailedError as failure:
                return {}, str(failure)
        run = launch(peer, workload, topic, self.source, self.target, self.directory)
        with run.tree:
            try:
                figures = self._measure(workload, run, topic, size, ours=peer is Peer.SPARKMIRROR)
            except measure.RunFailedError as failure:
                return {}, str(failure)
        if check and figures.get("whole"):
            (verdict,) = compare(self.source.servers, self.target.servers, {topic: run.target_topic})
            if not verdict.equal:
                return {}, f"the copy differs: {verdict.difference}"
        return figures, ""

    def _measure(self, workload: Workload, run: Run, topic: str, size: float, *, ours: bool) -> measure.Figures:
        match workload.kind:
            case Kind.RATE:
                return measure.rate(run, self.target, workload, size)
            case Kind.START:
                return measure.start_time(run, self.target)
            case Kind.LATENCY:
                return measure.latency(run, self.source, self.target, topic, workload.scaled_seconds)
            case Kind.MEMORY:
                return measure.memory(run, self.source, self.target, topic, workload)
            case Kind.RECOVERY:
                return recovery(run, lambda: again(run), self.source, self.target, topic, workload.partitions)
            case Kind.GROUPS:
                return groups(run, self.source, self.target, topic, workload.scaled_records, workload.checkpoints_s)
            case Kind.FAILOVER:
                return ready(run, self.source, self.target, topic, workload.partitions, workload.scaled_records)
            case Kind.TRANSACTIONS:
                return transactions(run, lambda: again(run), self.source, self.target, topic, workload, ours=ours)
            case Kind.MAP:
                raise ValueError("the map is loaded without a peer")

    def _tell(self, sample: report.Sample, seconds: float) -> None:
        shown = {
            report.FIGURES[name][0]: report.FIGURES[name][1].format(sample.figures[name])
            for name in report.FIGURES
            if sample.figures.get(name)
        }
        text = (
            sample.problem.splitlines()[0]
            if sample.problem
            else ", ".join(f"{name} {value}" for name, value in shown.items())
        )
        self.console.print(
            f"[dim]{sample.workload}, round {sample.round}, {sample.peer.value} ({seconds:.0f} s): {text}",
            highlight=False,
        )


def _kernels() -> list[report.Kernel]:
    """The figures of kernels.py, from a process of its own: what loading them costs is among them."""
    command = [sys.executable, str(Path(__file__).with_name("kernels.py")), "--json"]
    run = subprocess.run(command, stdout=subprocess.PIPE, timeout=KERNELS_S, check=True)
    return [report.Kernel(**figure) for figure in json.loads(run.stdout)]


def _replicate(given: argparse.Namespace, directory: Path, console: Console) -> list[report.Sample]:
    """Runs the workloads that were asked for, if any."""
    wanted = [w for w in WORKLOADS if (w.name in given.only if given.only else not w.by_name_only)]
    if not wanted:
        return []
    with two_clusters() as (source, target):
        bench = Bench(source, target, directory, console)
        with suppress(KeyboardInterrupt):  # what was measured by then is shown and written
            for workload in wanted:
                peers = [peer for peer in workload.peers if not given.peer or peer.value in given.peer]
                if peers:
                    bench.workload(workload, peers, given.rounds)
    return bench.samples


def main() -> int:
    """Runs what was asked for, shows and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [KERNELS, *(workload.name for workload in WORKLOADS)]
    parser.add_argument("--only", action="append", choices=names, help="this workload; may be given several times")
    parser.add_argument("--peer", action="append", choices=[peer.value for peer in Peer], help="this peer; likewise")
    parser.add_argument("--rounds", type=int, default=3 if SCALE >= 0.5 else 1, help="median of so many (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where JSON and markdown go")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 170)
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-bench-"))
    kernels = _kernels() if KERNELS in (given.only or [KERNELS]) else []
    samples = _replicate(given, directory, console)
    failed = any(sample.problem for sample in samples)
    report.show(samples, kernels, console)
    name = f"{datetime.now(UTC):%Y-%m-%d-%H%M}-scale-{SCALE:g}"
    for path in report.write(samples, kernels, given.results, name):
        console.print(f"[dim]{path}", highlight=False)
    if failed:
        console.print(f"[dim]logs of the runs are kept in {directory}", highlight=False)
    else:
        shutil.rmtree(directory)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""From samples to medians, ratios and verdicts; as a table on the screen, as JSON and as markdown.

A ratio is formed within a round, where both peers met the same machine, and the median is taken over the rounds.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from sparkmirror.lab.jars import KAFKA_VERSION
from workloads import SCALE, TARGETS, WORKLOADS, Peer, Target, Workload

FIGURES = {
    "records_per_s": ("records/s", "{:,.0f}"),
    "mb_per_s": ("MB/s", "{:,.1f}"),
    "cpu_s_per_gb": ("CPU s per GB", "{:.2f}"),
    "log_mb_per_s": ("MB/s in the log", "{:,.1f}"),
    "line_share": ("of full batches", "{:.2f}"),
    "p50_ms": ("latency p50, ms", "{:.2f}"),
    "p99_ms": ("latency p99, ms", "{:.2f}"),
    "p999_ms": ("latency p99.9, ms", "{:.2f}"),
    "max_ms": ("latency max, ms", "{:.1f}"),
    "cores_used": ("cores used", "{:.3f}"),
    "start_s": ("start, s", "{:.2f}"),
    "peak_mib": ("peak memory, MiB", "{:,.0f}"),
    "worker_mib": ("lane worker, MiB", "{:,.0f}"),
    "growth": ("lane worker, growth", "{:.2f}"),
    "load_s": ("load, s", "{:.2f}"),
    "load_cpu_s": ("load, CPU s", "{:.2f}"),
    "lane_back_s": ("killed lane back, s", "{:.2f}"),
    "lane_back_most_s": ("killed lane back, most, s", "{:.2f}"),
    "takeover_s": ("takeover, s", "{:.2f}"),
    **{f"repeated_{share}": (f"read twice by a group at {share} %", "{:,.0f}") for share in (10, 50, 90, 100)},
    "groups_ready_s": ("groups ready, s", "{:.2f}"),
    "map_mib": ("memory of the map, MiB", "{:,.0f}"),
    "map_log_mib": ("internal topic on disk, MiB", "{:,.1f}"),
    "restart_s": ("next start, s", "{:.2f}"),
    "restart_cpu_s": ("next start, CPU s", "{:.2f}"),
    "restart_mib": ("memory after it, MiB", "{:,.0f}"),
}
LIMITED = ("records_per_s", "mb_per_s", "cpu_s_per_gb", "p50_ms", "p99_ms", "p999_ms", "max_ms", "cores_used")
"""The figures of which the raw limit is a limit; its start and memory say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of one run; ``problem`` says why there are none."""

    workload: str
    peer: Peer
    round: int
    figures: dict[str, float]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One figure of kernels.py; ``met`` is None where nothing is aimed at."""

    what: str
    value: float
    unit: str
    target: float | None
    met: bool | None

    def cells(self) -> tuple[str, str, str]:
        """Its line of the table."""
        aim = "" if self.target is None else f"{self.target:g} {self.unit}"
        return self.what, f"{self.value:,.2f} {self.unit}", aim


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one workload: medians by peer, sparkmirror's ratios, and whether it is what was aimed at."""

    workload: Workload
    figure: str
    medians: dict[Peer, float]
    ratios: dict[Peer, float]
    verdicts: tuple[tuple[Target, bool], ...]


def rows(samples: Sequence[Sample]) -> Iterator[Row]:
    """Yields the rows of the table in the order of workloads and figures."""
    for workload in WORKLOADS:
        own = [sample for sample in samples if sample.workload == workload.name]
        for figure in FIGURES:
            values = {
                peer: {
                    sample.round: sample.figures[figure]
                    for sample in own
                    if sample.peer is peer and figure in sample.figures
                }
                for peer in Peer
            }
            medians = {peer: median(by_round.values()) for peer, by_round in values.items() if by_round}
            if any(medians.values()):
                ratios = _ratios(values, (Peer.MIRROR_MAKER, Peer.RAW) if figure in LIMITED else (Peer.MIRROR_MAKER,))
                verdicts = tuple(_verdicts(workload.name, figure, medians, ratios))
                yield Row(workload=workload, figure=figure, medians=medians, ratios=ratios, verdicts=verdicts)


def _ratios(values: dict[Peer, dict[int, float]], peers: Sequence[Peer]) -> dict[Peer, float]:
    mine = values[Peer.SPARKMIRROR]
    found = {}
    for peer in peers:
        ratios = [mine[number] / other for number, other in values[peer].items() if number in mine and other]
        if ratios:
            found[peer] = median(ratios)
    return found


def _verdicts(
    workload: str, figure: str, medians: dict[Peer, float], ratios: dict[Peer, float]
) -> Iterator[tuple[Target, bool]]:
    for target in TARGETS:
        if (target.workload, target.figure) == (workload, figure):
            value = medians.get(Peer.SPARKMIRROR) if target.against is None else ratios.get(target.against)
            if value is not None:
                yield target, target.met(value)


HEADINGS = ("workload", "figure", "MirrorMaker 2", "sparkmirror", "raw limit", "to MM2", "to raw", "aimed at")


def _cells(row: Row) -> tuple[str, ...]:
    label, form = FIGURES[row.figure]
    figures = (form.format(row.medians[peer]) if peer in row.medians else "" for peer in Peer)
    ratios = (f"{row.ratios[peer]:.2f} ×" if peer in row.ratios else "" for peer in (Peer.MIRROR_MAKER, Peer.RAW))
    return label, *figures, *ratios


KERNEL_HEADINGS = ("kernel, on one core", "sparkmirror", "aimed at")


def show(samples: Sequence[Sample], kernels: Sequence[Kernel], console: Console) -> None:
    """Prints the tables, and what failed."""
    if kernels:
        console.print(_kernel_table(kernels))
    if samples:
        console.print(_table(samples))
    for sample in samples:
        if sample.problem:
            console.print(
                f"[red]{sample.workload}, {sample.peer.value}, round {sample.round}: {sample.problem}", highlight=False
            )


def _kernel_table(kernels: Sequence[Kernel]) -> Table:
    table = Table(*KERNEL_HEADINGS)
    for kernel in kernels:
        what, value, aim = kernel.cells()
        table.add_row(what, value, aim and f"[{'green' if kernel.met else 'red'}]{aim}[/]")
    return table


def _table(samples: Sequence[Sample]) -> Table:
    table = Table(title=f"SCALE={SCALE:g}, median of {_rounds(samples)} round(s)", title_justify="left")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number in (0, 1, 7) else "right", no_wrap=True)
    last = None
    for row in rows(samples):
        new = row.workload is not last
        if new and last is not None:
            table.add_section()
        aims = ", ".join(f"[{'green' if met else 'red'}]{_aim(target)}[/]" for target, met in row.verdicts)
        table.add_row(row.workload.title if new else "", *_cells(row), aims)
        last = row.workload
    return table


def _aim(target: Target) -> str:
    return f"{target}{ {Peer.MIRROR_MAKER: ' MM2', Peer.RAW: ' raw', None: ''}[target.against] }"


def _rounds(samples: Sequence[Sample]) -> int:
    return max((sample.round for sample in samples), default=0)


def write(samples: Sequence[Sample], kernels: Sequence[Kernel], directory: Path, name: str) -> tuple[Path, Path]:
    """Writes NAME.json with every sample and NAME.md with the table; returns both paths."""
    directory.mkdir(parents=True, exist_ok=True)
    as_json, as_text = directory / f"{name}.json", directory / f"{name}.md"
    document = {
        "scale": SCALE,
        "rounds": _rounds(samples),
        "machine": machine(),
        "versions": versions(),
        "rows": [
            {
                "workload": row.workload.name,
                "figure": row.figure,
                "medians": {peer.value: value for peer, value in row.medians.items()},
                "ratios": {peer.value: value for peer, value in row.ratios.items()},
                "targets": [{"target": _aim(target), "met": met} for target, met in row.verdicts],
            }
            for row in rows(samples)
        ],
        "kernels": [asdict(kernel) for kernel in kernels],
        "samples": [asdict(sample) | {"peer": sample.peer.value} for sample in samples],
    }
    as_json.write_text(json.dumps(document, indent=1) + "\n")
    as_text.write_text(_markdown(samples, kernels))
    return as_json, as_text


def _markdown(samples: Sequence[Sample], kernels: Sequence[Kernel]) -> str:
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    lines = [
        f"# make bench, SCALE={SCALE:g}, median of {_rounds(samples)} round(s)",
        "",
        f"{machine()}. {about}. How it is measured: [README](../README.md).",
        "",
        *(_markdown_kernels(kernels) if kernels else ()),
        *(_markdown_rows(samples) if samples else ()),
    ]
    failed = [
        f"- {sample.workload}, {sample.peer.value}: {sample.problem.splitlines()[0]}"
        for sample in samples
        if sample.problem
    ]
    return "\n".join([*lines, *(["", "Failed:", "", *failed] if failed else []), ""])


def _markdown_kernels(kernels: Sequence[Kernel]) -> Iterator[str]:
    yield from (f"| {' | '.join(KERNEL_HEADINGS)} |", "| --- | ---: | --- |")
    for kernel in kernels:
        what, value, aim = kernel.cells()
        yield f"| {what} | {value} | {aim and f'{aim} {_mark(bool(kernel.met))}'} |"
    yield ""


def _markdown_rows(samples: Sequence[Sample]) -> Iterator[str]:
    yield from (f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * 2}{' ---: |' * 5} --- |")
    last = None
    for row in rows(samples):
        aims = ", ".join(f"{_aim(target)} {_mark(met)}" for target, met in row.verdicts)
        yield f"| {' | '.join((row.workload.title if row.workload is not last else '', *_cells(row), aims))} |"
        last = row.workload


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


def machine() -> str:
    """The machine in a line."""
    text = Path("/proc/cpuinfo").read_text()
    models = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    memory_gib = int(Path("/proc/meminfo").read_text().split()[1]) / (1 << 20)
    return f"{len(models)} × {models[0] if models else platform.machine()}, {memory_gib:.0f} GiB, {platform.system()}"


def versions() -> dict[str, str]:
    """Versions of what took part."""
    names = ("sparkmirror", "pyspark", "kafka-python", "numba", "confluent-kafka")
    return {"Kafka": KAFKA_VERSION, "Python": platform.python_version()} | {name: version(name) for name in names}

"""One run of the laboratory, from nothing to the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.conductor import conduct, hands
from sparkmirror.lab.chaos.deeds import Diary, Tell
from sparkmirror.lab.chaos.mirror_faults import make_right
from sparkmirror.lab.chaos.naming import Naming
from sparkmirror.lab.chaos.production import Application
from sparkmirror.lab.chaos.report import Run
from sparkmirror.lab.chaos.schedule import Kind, schedule
from sparkmirror.lab.chaos.site import Site, laid_out, until, write_file
from sparkmirror.lab.chaos.standstill import Lookout
from sparkmirror.lab.chaos.supervision import Supervisor
from sparkmirror.lab.chaos.verdict import Finding, caught_up, judge
from sparkmirror.lab.clock import steppable
from sparkmirror.lab.jars import KAFKA_VERSION
from sparkmirror.lab.spark_cluster import SparkCluster, start_spark

FIRST_S = 600.0
SPARK_WORKERS, SPARK_CORES = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run shall be.

    Attributes:
        seed: of the schedule.
        faults: how many.
        seconds: within which they begin.
        kinds: of faults; what cannot be made here is left out.
        spark: whether lanes run on a standalone Spark cluster.
        naming: of the copies.
        catch_up_s: how long the mirror may take at the end.
    """

    seed: int
    faults: int
    seconds: float
    kinds: tuple[Kind, ...]
    spark: bool
    naming: Naming
    catch_up_s: float

    @property
    def command(self) -> str:
        """How to do it again."""
        only = "" if set(self.kinds) == set(Kind) else "".join(f" --only {kind.name.lower()}" for kind in self.kinds)
        spark = " --spark" if self.spark else ""
        naming = "" if self.naming is Naming.RENAMED else f" --naming {self.naming}"
        arguments = f"--seed {self.seed} --faults {self.faults} --minutes {self.seconds / 60:g}"
        return f'make chaos ARGS="{arguments}{only}{spark}{naming}"'


def impossible(*, mounts: bool, clock: bool, spark: bool) -> dict[Kind, str]:
    """The kinds of faults that cannot be made, and why."""
    left_out: dict[Kind, str] = {}
    if not mounts:
        left_out[Kind.DISK_FULL] = "file systems may not be mounted here"
    if not clock:
        left_out[Kind.BROKER_CLOCK] = "libfaketime does not work here"
    if not spark:
        left_out[Kind.KILL_EXECUTOR] = "lanes run in the driver's own JVM, which has no executors (--spark)"
    return left_out


def run(wanted: Wanted, directory: Path, say: Tell, *, mounts: bool) -> Run:
    """Makes the run; whatever goes wrong with the mirror is in the result.

    Raises:
        LabError: the clusters could not be started.
    """
    left_out = impossible(mounts=mounts, clock=bool(steppable()), spark=wanted.spark)
    faults = schedule(wanted.seed, wanted.faults, wanted.seconds, [k for k in wanted.kinds if k not in left_out])
    diary = Diary(say)
    for fault in faults:
        diary.note(f"planned: #{fault.number} at {fault.at_s} s on {fault.resource}: {fault.kind}, {fault.detail}")
    with ExitStack() as stack:
        site = stack.enter_context(laid_out(directory, wanted.naming, mounts=mounts))
        spark = stack.enter_context(_spark(directory)) if wanted.spark else None
        diary.note("the clusters are up")
        began = time.monotonic()
        applications = [Application(site.servers(c.source), c.topic, c.partitions, c.style) for c in site.copies]
        lookout = Lookout(site)
        mirror = stack.enter_context(_supervised(site, spark, diary))
        doing = hands(site, mirror, applications, lookout, diary)

        def make_faults() -> None:
            conduct(faults, doing, diary)
            if any(fault.kind is Kind.HEALED_STOP for fault in faults):
                make_right(site)

        problems = _shake(applications, lookout, diary, make_faults)
        standstills = lookout.stop()
        findings, left = _settle(site, mirror, diary, wanted.catch_up_s)
        undone = [f"fault #{deed.fault.number}: {deed.problem}" for deed in diary.deeds if deed.problem]
        return Run(
            command=wanted.command,
            versions={"Kafka": KAFKA_VERSION, "librdkafka": confluent_kafka.libversion()[0]},
            left_out={kind: why for kind, why in left_out.items() if kind in wanted.kinds},
            faults=faults,
            diary=diary,
            standstills=standstills,
            seconds=time.monotonic() - began,
            written=sum(each.written for each in applications),
            failures={each.topic: each.failures for each in applications},
            starts=mirror.starts,
            problems=[*problems, *undone, *left],
            findings=findings,
        )


def _shake(
    applications: Sequence[Application], lookout: Lookout, diary: Diary, faults: Callable[[], None]
) -> list[str]:
    """Production, and the faults while it runs; gives what went wrong with them."""
    for each in applications:
        each.start()
    lookout.start()
    problems = []
    try:
        until(lambda: not lookout.still(0.0), "every partition is copied for the first time", FIRST_S)
        diary.note("every partition is copied: faults begin")
        faults()
        diary.note("all faults are undone: production ends")
    except LabError as problem:
        problems.append(str(problem))
    for each in applications:
        each.stop()
    return problems


def _settle(site: Site, mirror: Supervisor, diary: Diary, catch_up_s: float) -> tuple[tuple[Finding, ...], list[str]]:
    """The mirror catches up and stops; then everything is compared."""
    problems = []
    missing = caught_up(site, site.copies, catch_up_s)
    if missing:
        problems.append(f"not caught up after {catch_up_s:.0f} s: {missing}")
    diary.note(f"caught up: {missing or 'everything is there'}")
    try:
        code = mirror.stop()
        if code:
            problems.append(f"the mirror's exit code was {code}")
    except LabError as problem:
        problems.append(str(problem))
    findings = judge(site)
    for finding in findings:
        diary.note(f"{finding.copy.copy}: {finding.tally}, {finding.mapped} mapped {finding.map_problem}")
    return findings, problems


@contextmanager
def _spark(directory: Path) -> Iterator[SparkCluster]:
    with start_spark(workers=SPARK_WORKERS, cores=SPARK_CORES, directory=directory / "spark") as cluster:
        yield cluster


@contextmanager
def _supervised(site: Site, spark: SparkCluster | None, diary: Diary) -> Iterator[Supervisor]:
    logs = site.directory / "mirror"
    logs.mkdir()
    mirror = Supervisor(
        write_file(site),
        logs,
        options=("--master", spark.url) if spark else (),
        spark=lambda: [worker.pid for worker in spark.workers if worker.running] if spark else [],
        note=diary.note,
    )
    try:
        yield mirror
    finally:
        mirror.abandon()

"""``sparkmirror lab up|start|down|status``: real local Kafka clusters to try things on.

The clusters belong to the process of ``lab up`` and end with it, however it ends: it stays in the foreground until
Ctrl-C, or goes to the background with ``--detach``. ``start``, ``down`` and ``status`` work from any other shell of the
user.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sparkmirror.cli.exits import ExitCode
from sparkmirror.errors import LabError
from sparkmirror.lab import state as lab_state
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.lab.jars import KAFKA_VERSION, OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION, jars
from sparkmirror.lab.jvm import Load
from sparkmirror.lab.listeners import Listener
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.ready import known_brokers
from sparkmirror.printable import json_text

DETACH_SECONDS = 2400.0  # the first use fetches the jars
LOOK_SECONDS = 0.5
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

app = typer.Typer(
    name="lab",
    help="Start and stop real local Kafka clusters.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Names = Annotated[list[str] | None, typer.Option("--clusters", metavar="NAME,...", help="Clusters; a,b by default.")]
Brokers = Annotated[int, typer.Option("--brokers", min=1, max=9, help="Brokers of each cluster.")]
Version = Annotated[
    str, typer.Option("--version", help=f"Of Kafka, such as {OLDER_KAFKA_VERSION} or {OLDEST_KAFKA_VERSION}.")
]
Security = Annotated[
    list[str] | None,
    typer.Option(
        "--security", metavar="NAME,...", help=f"Listeners beside PLAINTEXT: {', '.join(list(Listener)[1:])}."
    ),
]
Config = Annotated[list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A setting of the brokers.")]
Directory = Annotated[Path | None, typer.Option("--directory", help="Keep data and logs here; temporary by default.")]
Detach = Annotated[bool, typer.Option("--detach", "-d", help="Return when the clusters are up, leave them running.")]
OnListener = Annotated[Listener, typer.Option("--listener", help="The listener that the properties use.")]


@app.command()
def up(
    clusters: Names = None,
    brokers: Brokers = 1,
    version: Version = KAFKA_VERSION,
    security: Security = None,
    config: Config = None,
    directory: Directory = None,
    detach: Detach = False,
) -> None:
    """Start clusters and keep them until Ctrl-C, or until `lab down` with --detach.

    Prints their bootstrap servers and the beginning of an mm2.properties for them.
    """
    names, listeners, settings = _split(clusters) or ("a", "b"), _split(security), _settings(config or ())
    if detach:
        jars(version)  # here, where one sees how far the first use is
        options = {"--clusters": names, "--security": listeners, "--config": config or ()}
        arguments = [word for option, values in options.items() for value in values for word in (option, value)]
        arguments += ["--directory", str(directory.resolve())] if directory else []
        _detach(["lab", "up", "--brokers", str(brokers), "--version", version, *arguments])
        _show(_running())
        return
    stopped, again = threading.Event(), threading.Event()
    with lab_state.the_lab():
        for number in _STOPPING:
            # While the clusters start there is nothing to save: their watchers end the brokers and remove the data.
            signal.signal(number, lambda *_: os._exit(128 + signal.SIGTERM))
        started = start_all(
            names,
            version=version,
            brokers=brokers,
            security=listeners,
            config=settings,
            directory=directory,
            load=Load.HEAVY,
        )
        for number in _STOPPING:
            signal.signal(number, lambda *_: stopped.set())
        signal.signal(lab_state.START_SIGNAL, lambda *_: again.set())
        lab_state.publish(started)
        _show(_running())
        _keep(started, stopped, again)


@app.command()
def start() -> None:
    """Start brokers again that have ended, with their data: kill one by its process id to see a cluster die."""
    state = lab_state.read()
    if state is None:
        raise LabError("no lab is running: `sparkmirror lab up` starts one")
    ended = lab_state.ended(state)
    if not ended:
        typer.echo("all brokers run")
        return
    lab_state.start_again(state)
    for cluster, broker in ended:
        typer.echo(f"broker {broker.node} of cluster {cluster.name} answers again")


@app.command()
def down() -> None:
    """Stop the clusters that `lab up` started."""
    state = lab_state.read()
    if state is None:
        typer.echo("no lab is running")
        return
    lab_state.end(state)
    typer.echo("the lab is down")


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as one JSON object.")] = False,
    properties: Annotated[bool, typer.Option("--properties", help="Only the mm2.properties.")] = False,
    listener: OnListener = Listener.PLAINTEXT,
) -> None:
    """Show the clusters that run; exit code 1 when none does."""
    state = lab_state.read()
    if state is None:
        typer.echo("no lab is running: `sparkmirror lab up` starts one", err=True)
        raise typer.Exit(ExitCode.FAILED)
    if as_json:
        typer.echo(json_text(asdict(state), indent=2))
    elif properties:
        typer.echo(properties_of(state, listener), nl=False)
    else:
        _show(state, listener)


def properties_of(state: lab_state.LabState, listener: str = Listener.PLAINTEXT) -> str:
    """An mm2.properties for the clusters of a lab: flows from the first to each of the others, and back.

    Raises:
        LabError: the lab was started without this listener.
    """
    names = [cluster.name for cluster in state.clusters]
    lines = [f"clusters = {', '.join(names)}"]
    for cluster in state.clusters:
        if listener not in cluster.listeners:
            raise LabError(f"the lab has no listener {listener}: it has {', '.join(cluster.listeners)}")
        lines += [f"{cluster.name}.{key} = {value}" for key, value in cluster.listeners[listener].items()]
    for target in names[1:]:
        for flow in (f"{names[0]}->{target}", f"{target}->{names[0]}"):
            lines += [f"{flow}.enabled = true", f"{flow}.topics = .*"]
    replicas = min((3, *(len(cluster.brokers) for cluster in state.clusters)))
    kinds = ("", "heartbeats.topic.", "offset-syncs.topic.", "checkpoints.topic.")
    return "\n".join([*lines, *(f"{kind}replication.factor = {replicas}" for kind in kinds), ""])


def _running() -> lab_state.LabState:
    state = lab_state.read()
    if state is None:
        raise LabError("the lab ended while it started")
    return state


def _show(state: lab_state.LabState, listener: str = Listener.PLAINTEXT) -> None:
    console = Console()
    if not state.clusters:
        console.print(f"process {state.pid} is starting its clusters")
        return
    table = Table("cluster", "kafka", "broker", "answers", "pid")
    table.add_column("log", overflow="fold")
    for cluster in state.clusters:
        for each in cluster.brokers:
            answers = "yes" if known_brokers((HOST, each.port)) else "no"
            table.add_row(cluster.name, cluster.version, str(each.node), answers, str(each.pid), each.log)
    console.print(table)
    addresses = Table("cluster", "listener", "bootstrap.servers")
    for cluster in state.clusters:
        for name, keys in cluster.listeners.items():
            addresses.add_row(cluster.name, name, keys["bootstrap.servers"])
    console.print(addresses)
    console.print("\n# mm2.properties, also from `sparkmirror lab status --properties`", highlight=False)
    console.out(properties_of(state, listener), highlight=False)


def _keep(clusters: Sequence[LabCluster], stopped: threading.Event, again: threading.Event) -> None:
    """Until a signal comes; says once of each broker when it has ended, and starts those again when it is told to."""
    ended: set[Path] = set()
    if sys.stdout.isatty():
        typer.echo("Ctrl-C stops the clusters")
    while not stopped.wait(LOOK_SECONDS):
        if again.is_set():
            again.clear()
            _start_again(clusters)
            ended.clear()
        for cluster in clusters:
            for broker in cluster.brokers:
                if not broker.running and broker.log not in ended:
                    ended.add(broker.log)
                    typer.echo(f"broker {broker.node} of cluster {cluster.name} has ended: see {broker.log}", err=True)
    for cluster in clusters:
        cluster.stop()


def _start_again(clusters: Sequence[LabCluster]) -> None:
    """Starts what has ended, all at once: brokers of one cluster need each other."""
    for cluster in clusters:
        for broker in cluster.brokers:
            try:
                broker.begin()
            except LabError as failure:
                typer.echo(str(failure), err=True)
    lab_state.publish(clusters)


def _detach(arguments: Sequence[str]) -> None:
    """Runs ``lab up`` in a process of its own session and returns when its clusters are up."""
    output = lab_state.state_file().with_name("up.log")
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sparkmirror", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = output.read_text(errors="replace").strip().removeprefix("sparkmirror: ")
            raise LabError(f"the lab did not start: {said}")
        state = lab_state.read()
        if state is not None and state.pid == process.pid and state.clusters:
            return
        time.sleep(LOOK_SECONDS / 5)
    process.terminate()
    raise LabError(f"the lab did not start within {DETACH_SECONDS:.0f} s: see {output}")


def _split(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def _settings(pairs: Sequence[str]) -> Mapping[str, str]:
    settings = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise typer.BadParameter(f"{', '.join(wrong)}: write --config KEY=VALUE")
    return settings

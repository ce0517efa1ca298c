"""The command line of the first MirrorMaker, ``kafka-mirror-maker.sh``, to flows.

Each ``--consumer.config`` is a source, ``--producer.config`` the target. It copied records and nothing else, under the
same names: so configurations, ACLs, groups, checkpoints and heartbeats are switched off here, ``auto.offset.reset`` is
``latest`` unless the file says otherwise, and topics are created with the replication factor of the target's brokers.

What is not the same: partitions keep their numbers, records of aborted transactions do not arrive, and nothing is
committed for ``group.id``, whose committed offsets are not read either.

Reference: ``kafka.tools.MirrorMaker`` of Kafka 3.x.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.config.entries import Entry
from sparkmirror.config.keys import ADMIN, CONSUMER, PRODUCER, Key
from sparkmirror.config.notices import flow_notices
from sparkmirror.config.opened import Opened
from sparkmirror.config.properties import PropertiesFile, read_properties
from sparkmirror.config.providers import DECLARATION, declared
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName

COMMAND = "command line"
_EVERYWHERE = CONSUMER.keys() & PRODUCER.keys() & ADMIN.keys()
"""Keys that clients of all roles have: they hold for all that is done with the cluster."""

_DEFAULTS: Mapping[str, str] = {
    "replication.policy.class": "IdentityReplicationPolicy",
    "replication.factor": "-1",
    "topics.exclude": "__.*",
    "heartbeats.replication.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "source.consumer.auto.offset.reset": "latest",
    "target.producer.delivery.timeout.ms": str(2**31 - 1),
}
_OLD: Mapping[str, str] = {
    "zookeeper.connect": "consumers that read ZooKeeper are gone since Kafka 2.0",
    "metadata.broker.list": "that is a producer of Kafka 0.8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The options beside the two kinds of files.

    Attributes:
        include: the topics, one Java regular expression or several with commas between.
        num_streams: how many consumers there were.
        abort_on_send_failure: whether a record that could not be sent ended the process.
        offset_commit_interval_ms: None where it was not given.
        message_handler: a Java class that changed records.
        rebalance_listener: a Java class.
    """

    include: str
    num_streams: int = 1
    abort_on_send_failure: bool = True
    offset_commit_interval_ms: int | None = None
    message_handler: str = ""
    rebalance_listener: str = ""


def open_command(consumers: Sequence[Path], producer: Path, command: Command) -> Opened:
    """Reads the files of a command.

    Args:
        consumers: ``--consumer.config``, one for each source.
        producer: ``--producer.config``.
        command: the other options.

    Raises:
        ConfigError: Java code that would change what is copied, or files that cannot work.
    """
    _refuse_code(command)
    target = read_properties(producer)
    sources = [read_properties(path) for path in consumers]
    aliases = ["source"] if len(sources) == 1 else [f"source{number}" for number in range(1, len(sources) + 1)]
    own = _made(command)
    flows: dict[FlowName, Mapping[str, Entry]] = {}
    warnings: list[str] = list(_told(command, sources, target))
    declarations: dict[str, Entry] = {}
    for alias, source in zip(aliases, sources, strict=True):
        clients = _client(source, "source", "consumer", CONSUMER) | _client(target, "target", "producer", PRODUCER)
        flows[FlowName(source=Alias(alias), target=Alias("target"))] = own | clients
        warnings += flow_notices(source.file, [pair for pair in clients.items() if pair[1].file == source.file])
    warnings += flow_notices(target.file, _client(target, "target", "producer", PRODUCER).items())
    for file in (*sources, target):
        for key, entry in file.entries.items():
            if key.startswith(DECLARATION) and declarations.setdefault(key, entry).raw.strip() != entry.raw.strip():
                raise entry.wrong(f"is not what {declarations[key].file} says", "make them equal")
    return Opened(
        file=", ".join(file.file for file in (*sources, target)),
        aliases=(*map(Alias, aliases), Alias("target")),
        flows=flows,
        idle={},
        providers=declared(declarations),
        kept=tuple(declarations.values()),
        enable="give a --consumer.config",
        warnings=tuple(dict.fromkeys(warnings)),
        fan_in=True,
    )


def _refuse_code(command: Command) -> None:
    if command.message_handler:
        raise ConfigError(
            file=COMMAND,
            key="--message.handler",
            reason="Java code that changes records does not run here, and records must not arrive without it",
            remedy="one that only renames topics: sparkmirror convert, then replication.policy.class and separator; "
            "change records before or behind the mirror",
        )
    if command.rebalance_listener:
        raise ConfigError(
            file=COMMAND,
            key="--consumer.rebalance.listener",
            reason="there is no consumer group here, so it would never be called",
            remedy="remove it; new topics and partitions are found by themselves (refresh.topics.interval.seconds)",
        )


def _made(command: Command) -> dict[str, Entry]:
    """The keys that the command itself stands for."""
    # As its filter did: blanks and quotation marks around are not part of the expression.
    include = command.include.replace(" ", "").strip("\"'")
    given = {"topics": ("--include", include), "tasks.max": ("--num.streams", str(command.num_streams))}
    made = {key: Entry(file=COMMAND, key=option, raw=raw) for key, (option, raw) in given.items()}
    default = "default of the first MirrorMaker"
    return {key: Entry(file=COMMAND, key=default, raw=raw) for key, raw in _DEFAULTS.items()} | made


def _client(file: PropertiesFile, side: str, role: str, table: Mapping[str, Key]) -> dict[str, Entry]:
    for key, reason in _OLD.items():
        if key in file.entries and "bootstrap.servers" not in file.entries:
            raise file.entries[key].wrong(reason, "give bootstrap.servers")
    if "bootstrap.servers" not in file.entries:
        raise ConfigError(
            file=file.file, key="bootstrap.servers", reason="is not set", remedy="give host:port, host:port"
        )
    return {
        f"{side}.cluster.{key}" if key in _EVERYWHERE and key in table else f"{side}.{role}.{key}": entry
        for key, entry in file.entries.items()
        if not key.startswith(DECLARATION)
    }


def _told(command: Command, sources: Sequence[PropertiesFile], target: PropertiesFile) -> Iterator[str]:
    yield (
        f"{COMMAND}: offsets that the group of the first MirrorMaker has committed are not read: a partition without a "
        "position here begins as auto.offset.reset says"
    )
    if command.offset_commit_interval_ms is not None:
        yield (
            f"{COMMAND}: without meaning here: --offset.commit.interval.ms; positions are written about every second"
        )
    if not command.abort_on_send_failure:
        yield (
            f"{COMMAND}: --abort.on.send.failure=false drops no record here: one that the target cannot hold stops its "
            "partition, the others go on; to put such records aside, convert and set errors.tolerance=all with "
            "errors.deadletterqueue.topic.name"
        )
    for file in (*sources, target):
        if file.duplicates:
            told = ", ".join(file.entries[key].place for key in file.duplicates)
            yield f"{file.file}: given more than once, the last one counts: {told}"

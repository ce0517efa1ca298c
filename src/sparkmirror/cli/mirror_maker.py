"""``sparkmirror mirror-maker``: the options of the first MirrorMaker, run as ``sparkmirror run`` runs a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparkmirror.cli.logs import LogFormat, LogFormatOption
from sparkmirror.cli.options import Archive, Conf, Master
from sparkmirror.errors import ConfigError


def mirror_maker(
    context: typer.Context,
    consumers: Annotated[
        list[Path], typer.Option("--consumer.config", metavar="F", help="A source: properties of its consumer.")
    ],
    producer: Annotated[Path, typer.Option("--producer.config", metavar="F", help="The target: of its producer.")],
    include: Annotated[
        str | None,
        typer.Option("--include", "--whitelist", metavar="REGEX", help="The topics; several with commas between."),
    ] = None,
    streams: Annotated[int, typer.Option("--num.streams", metavar="N", min=1, help="Lanes at most.")] = 1,
    commit_ms: Annotated[
        int | None, typer.Option("--offset.commit.interval.ms", metavar="MS", help="Without effect.")
    ] = None,
    abort: Annotated[
        str, typer.Option("--abort.on.send.failure", metavar="true|false", help="Nothing is dropped with false either.")
    ] = "true",
    handler: Annotated[str, typer.Option("--message.handler", metavar="CLASS", help="Refused: Java code.")] = "",
    handler_arguments: Annotated[
        str, typer.Option("--message.handler.args", metavar="TEXT", help="Refused with the handler.")
    ] = "",
    listener: Annotated[
        str, typer.Option("--consumer.rebalance.listener", metavar="CLASS", help="Refused: Java code.")
    ] = "",
    listener_arguments: Annotated[
        str, typer.Option("--rebalance.listener.args", metavar="TEXT", help="Refused with the listener.")
    ] = "",
    _new_consumer: Annotated[
        bool, typer.Option("--new.consumer", help="Without effect, as in its last years.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Copy to the present end of every topic, then exit.")] = False,
    master: Master = None,
    conf: Conf = None,
    archive: Archive = None,
    log_format: LogFormatOption = LogFormat.PLAIN,
    convert: Annotated[
        bool, typer.Option("--convert", help="Run nothing: print the mm2.properties that says the same.")
    ] = False,
) -> None:
    """Run a command line of the first MirrorMaker (kafka-mirror-maker.sh): the same topic names, nothing but records.

    --message.handler and --consumer.rebalance.listener are refused. Offsets that its consumer group has committed are
    not read.
    """
    from sparkmirror import config
    from sparkmirror.cli import convert as conversion
    from sparkmirror.cli.run import Signals, prepare, run_flows

    if include is None:
        raise ConfigError(file=config.COMMAND, key="--include", reason="is not set", remedy="give the topics' regex")
    command = config.Command(
        include=include,
        num_streams=streams,
        abort_on_send_failure=_boolean("--abort.on.send.failure", abort),
        offset_commit_interval_ms=commit_ms,
        message_handler=handler or handler_arguments,
        rebalance_listener=listener or listener_arguments,
    )
    opened = config.open_command(consumers, producer, command)
    if convert:
        conversion.show([opened], opened.file, None, Path(config.SECRETS_FILE))
        return
    signals = Signals()
    spark = prepare(context, master, conf, archive, log_format)
    run_flows(config.settle([opened], opened.file), spark, once=once, signals=signals)


def _boolean(option: str, text: str) -> bool:
    from sparkmirror.config import COMMAND

    if text.lower() not in ("true", "false"):
        raise ConfigError(file=COMMAND, key=option, reason=f"{text!r} is neither true nor false")
    return text.lower() == "true"

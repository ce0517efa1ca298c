"""What an operation did: for people as Markdown, for programs as JSON; the same facts in both.

Invariant: what is not known is said to be not known; nothing is called lost or repeated that is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparkmirror.config import FlowConfig
from sparkmirror.failover.look import PartitionState
from sparkmirror.failover.moves import GroupMove, MovedPlace
from sparkmirror.failover.states import Keep, Kind, Step
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.ledger import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An operation that has ended, or that cannot go on.

    Attributes:
        flow: the flow.
        operation: the newest record of it.
        partitions: as they were when the flow was stopped.
        moves: of the groups, as they are now.
    """

    flow: FlowConfig
    operation: Operation
    partitions: tuple[PartitionState, ...]
    moves: tuple[GroupMove, ...]

    @property
    def missing(self) -> int:
        """Source offsets that the target is known to lack."""
        return sum(each.missing for each in self.partitions)

    @property
    def left(self) -> str:
        """The cluster that applications have left."""
        operation = self.operation
        return operation.target if operation.kind == Kind.FAILBACK.value else operation.source

    @property
    def taken(self) -> str:
        """The cluster that has taken its place."""
        operation = self.operation
        return operation.source if operation.kind == Kind.FAILBACK.value else operation.target

    @property
    def troubles(self) -> tuple[str, ...]:
        """What did not go as it should."""
        facts, failure = self.operation.facts, self.operation.failure
        found = [failure] if failure else []
        if self.operation.step == Step.ABANDONED.name:
            return tuple(found)
        found += [f"{topic}-{number}: {why}" for topic, number, why in facts.get("unsettled", [])]
        found += [f"group {group} got members on the target meanwhile" for group in facts.get("active", [])]
        found += [f"group {move.group}: {move.hindrance}" for move in self.moves if move.hindrance]
        return (*found, *facts.get("problems", []))

    @property
    def moved(self) -> tuple[GroupMove, ...]:
        """The groups that go on at the target."""
        return tuple(move for move in self.moves if not move.hindrance and move.wanted)

    @property
    def renamed(self) -> dict[str, str]:
        """The topics whose name on the target is another one."""
        names = {each.partition.topic: each.target.topic for each in self.partitions}
        names |= self.operation.facts.get("names", {})
        return {here: there for here, there in sorted(names.items()) if here != there}

    @property
    def seconds(self) -> float:
        """From the begin to the last record."""
        return (self.operation.time_ms - self.operation.began_ms) / 1000


def as_dict(report: Report) -> dict[str, Any]:
    """For JSON."""
    operation = report.operation
    return {
        "id": operation.id,
        "kind": operation.kind,
        "flow": str(report.flow.name),
        "from": report.left,
        "to": report.taken,
        "by": operation.by,
        "began": _moment(operation.began_ms),
        "ended": _moment(operation.time_ms),
        "seconds": round(report.seconds, 1),
        "result": Step[operation.step].value if not operation.failure else "interrupted",
        "steps": [{"step": name.lower(), "seconds": round(took, 1)} for name, took in _steps(operation)],
        "lost_records": report.missing,
        "repeated_records": _repeated(report.moves),
        "troubles": list(report.troubles),
        "partitions": [_partition(each) for each in report.partitions],
        "groups": [_group(each) for each in report.moves],
        "applications": {
            "bootstrap.servers": ",".join(report.flow.target.consumer.bootstrap_servers),
            "topics": report.renamed,
        },
        "divergent": _divergent(operation),
        "fenced_topics": _denied(operation),
    }


def as_markdown(report: Report) -> str:
    """For people."""
    operation = report.operation
    lines = [
        f"# {operation.kind.capitalize()} {report.left} to {report.taken}: {_result(report)}",
        "",
        _what(report),
        "",
        *_losses(report),
        *_section("What did not go as it should", [f"- {text}" for text in report.troubles]),
        *_section("What applications have to change", _applications(report)),
        *_section(f"Topics of {report.left} that nobody may write to", _fenced(report)),
        *_section("Steps", _table(("step", "seconds"), [(n.lower(), f"{s:.1f}") for n, s in _steps(operation)])),
        *_section("Topics", _table(_TOPIC_HEAD, [_topic_row(name, each) for name, each in _by_topic(report).items()])),
        *_section("Groups", _table(_GROUP_HEAD, [_group_row(move) for move in report.moves])),
        *_section(*_divergent_section(operation)),
        *_section("Partitions that lack records", _table(_LACKING_HEAD, _lacking(report.partitions))),
        *_section("Offsets of groups", _table(_PLACE_HEAD, [_place_row(m, p) for m in report.moves for p in m.places])),
    ]
    return "\n".join(lines) + "\n"


_TOPIC_HEAD = ("topic", "on the target", "partitions", "records missing", "source seen last")
_GROUP_HEAD = ("group", "partitions moved", "read twice", "ahead of the copy", "seen on the source last", "remark")
_LACKING_HEAD = ("partition", "copied up to", "source end", "missing", "seen last")
_PLACE_HEAD = ("group", "partition", "committed", "on the target", "offset there", "what lies there")


def _divergent(operation: Operation) -> list[dict[str, Any]]:
    kept: Mapping[str, str] = operation.facts.get("kept", {})
    in_topics = operation.facts.get("divergent_as") == Keep.TOPIC.value
    return [
        {
            "topic": topic,
            "partition": number,
            "first": first,
            "last": end - 1,
            "kept_in": kept.get(topic) if in_topics else None,
        }
        for topic, number, first, end in operation.facts.get("divergent", [])
    ]


def _divergent_section(operation: Operation) -> tuple[str, list[str]]:
    rows = [
        (f"{one['topic']}-{one['partition']}", str(one["first"]), str(one["last"]), one["kept_in"] or "")
        for one in _divergent(operation)
    ]
    head = ("partition", "from offset", "to offset", "kept in")
    return f"What only {operation.source} has", _table(head, rows)


def _what(report: Report) -> str:
    operation = report.operation
    times = f"{_moment(operation.began_ms)} to {_moment(operation.time_ms)} ({report.seconds:.1f} s)"
    return f"`{operation.id}`, flow `{report.flow.name}`, by {operation.by}, {times}"


def _result(report: Report) -> str:
    if report.operation.failure:
        return "interrupted"
    return Step[report.operation.step].value if not report.troubles else "done, with trouble"


def _losses(report: Report) -> list[str]:
    unknown = sum(each.end == NO_OFFSET for each in report.partitions)
    lines = [f"- records of the source that are not on the target, as far as is known: **{report.missing}**"]
    if unknown:
        lines.append(f"- partitions whose end on the source was never seen: {unknown}")
    if report.operation.kind == Kind.FAILOVER.value and report.partitions:
        moments = [each.seen_ms for each in report.partitions if each.seen_ms]
        if moments:
            since = _moment(min(moments))
            lines.append(f"- what the source took after it was seen last (from {since} on) cannot be known")
        if len(moments) < len(report.partitions):
            count = len(report.partitions) - len(moments)
            lines.append(f"- partitions of which it is not known when the source was seen last: {count}")
    twice = _repeated(report.moves)
    lines.append(f"- records that groups read twice: **{'some' if twice is None else twice}**")
    return lines


def _applications(report: Report) -> list[str]:
    servers = ",".join(report.flow.target.consumer.bootstrap_servers)
    renamed = [f"- topic `{here}` is called `{there}`" for here, there in report.renamed.items()]
    return [f"- `bootstrap.servers={servers}`", *(renamed or ["- topics keep their names"])]


def _fenced(report: Report) -> list[str]:
    names = _denied(report.operation)
    if not names or report.operation.step != Step.DONE.name:
        return []
    back, release = report.flow.name.back, f"`sparkmirror release FILE --flow '{report.flow.name}' --fence-only`"
    waits = f"`{back}` cannot write to them either, and waits. " if report.flow.policy.keeps_names else ""
    return [f"{waits}A failback ends this, or {release}.", "", *(f"- `{name}`" for name in names)]


def _denied(operation: Operation) -> list[str]:
    """The topics that nobody may write to now."""
    return sorted({row[1] for row in operation.facts.get("fence", [])})


def _steps(operation: Operation) -> list[tuple[str, float]]:
    times: Mapping[str, Sequence[int]] = operation.facts.get("times", {})
    return [(name, (ended - began) / 1000) for name, (began, ended) in times.items()]


def _by_topic(report: Report) -> dict[str, list[PartitionState]]:
    found: dict[str, list[PartitionState]] = {}
    for each in report.partitions:
        found.setdefault(each.partition.topic, []).append(each)
    return found


def _topic_row(name: str, each: Sequence[PartitionState]) -> tuple[str, ...]:
    missing = sum(one.missing for one in each)
    return name, each[0].target.topic, str(len(each)), str(missing), _moment(min(one.seen_ms for one in each))


def _group_row(move: GroupMove) -> tuple[str, ...]:
    twice = _repeated((move,))
    remark = move.hindrance or (f"also reads {', '.join(move.uncopied)}" if move.uncopied else "")
    return (
        move.group,
        f"{len(move.wanted)} of {len(move.places)}",
        "some" if twice is None else str(twice),
        str(sum(place.ahead for place in move.places)),
        _moment(move.seen_ms),
        remark,
    )


def _lacking(partitions: Sequence[PartitionState]) -> list[tuple[str, ...]]:
    return [
        (str(each.partition), str(each.position), str(each.end), str(each.missing), _moment(each.seen_ms))
        for each in partitions
        if each.missing
    ]


def _place_row(move: GroupMove, place: MovedPlace) -> tuple[str, ...]:
    there = "" if place.target is None else str(place.target)
    offset = "" if place.offset == NO_OFFSET else str(place.offset)
    return move.group, str(place.partition), str(place.committed.offset), there, offset, place.text


def _partition(each: PartitionState) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "target_topic": each.target.topic,
        "copied_up_to": each.position,
        "source_end": None if each.end == NO_OFFSET else each.end,
        "source_seen": _moment(each.seen_ms),
        "missing": None if each.end == NO_OFFSET else each.missing,
    }


def _group(move: GroupMove) -> dict[str, Any]:
    return {
        "group": move.group,
        "source_seen": _moment(move.seen_ms),
        "moved": not move.hindrance,
        "hindrance": move.hindrance,
        "repeated": _repeated((move,)),
        "partitions": [
            {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "committed": place.committed.offset,
                "target_topic": None if place.target is None else place.target.topic,
                "offset": None if place.offset == NO_OFFSET else place.offset,
                "ahead": place.ahead,
                "text": place.text,
            }
            for place in move.places
        ],
    }


def _repeated(moves: Sequence[GroupMove]) -> int | None:
    """Records below what groups had committed that they read again; None where MirrorMaker 2's part leaves it open."""
    return 0 if all(place.exact for move in moves for place in move.places) else None


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [
        f"| {' | '.join(head)} |",
        f"| {' | '.join('---' for _ in head)} |",
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows),
    ]


def _moment(time_ms: int) -> str:
    return (
        f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z" if time_ms else "never"
    )

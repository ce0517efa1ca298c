"""What an operation did: for people as Markdown, for programs as JSON; the same facts in both.

Invariant: what is not known is said to be not known; nothing is called lost or repeated that is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sparkmirror.config import FlowConfig
from sparkmirror.failover import fence
from sparkmirror.failover.comparison import Comparison
from sparkmirror.failover.divergence import kept_as
from sparkmirror.failover.look import PartitionState
from sparkmirror.failover.markdown import code, literal, table
from sparkmirror.failover.moves import Count, GroupMove, MovedPlace, count
from sparkmirror.failover.operator import INTERRUPTIONS
from sparkmirror.failover.own_topics import told_of_strange
from sparkmirror.failover.plan import some
from sparkmirror.failover.states import (
    FENCE,
    FORGOTTEN,
    MAP_LACKS,
    NOT_TAKEN,
    STRANGE,
    UNSETTLED,
    Keep,
    Kind,
    Step,
    can_be_taken_back,
    file_name,
)
from sparkmirror.model import NO_OFFSET
from sparkmirror.naming import policy_for
from sparkmirror.offsets.ledger import Operation
from sparkmirror.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """What applications use in the place of a topic of the cluster that they have left.

    Attributes:
        topic: its name there.
        producers: the topics that they may write to, the usual one first; none for a copy, to which only mirrors write.
        consumers: the topics that have the records which were there, and those which are written from now on.
    """

    topic: str
    producers: tuple[str, ...]
    consumers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An operation that has ended, or that cannot go on.

    Attributes:
        flow: the flow.
        operation: the newest record of it.
        partitions: as they were when the flow was stopped.
        moves: of the groups, as they are now.
        notes: what else is to be known, and is no trouble of this operation.
    """

    flow: FlowConfig
    operation: Operation
    partitions: tuple[PartitionState, ...]
    moves: tuple[GroupMove, ...]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of its files; the report of an operation that was interrupted stays beside that of its end."""
        before = len(self.operation.facts.get(INTERRUPTIONS, []))
        name = file_name(self.operation)
        return f"{name}.interrupted-{before + 1}" if self.operation.failure else name

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
        for alias in dict.fromkeys(alias for alias, _ in facts.get(STRANGE, [])):
            strange = {name for cluster, name in facts[STRANGE] if cluster == alias}
            found += told_of_strange(strange, str(self.flow.name), alias)
        if self.operation.step == Step.ABANDONED.name:
            return tuple(found)
        found += [f"{topic}-{number}: {why}" for topic, number, why in facts.get(UNSETTLED, [])]
        found += facts.get(MAP_LACKS, [])
        hindered = {move.group: move.hindrance for move in self.moves if move.hindrance}
        came = [group for group in facts.get("active", []) if group not in hindered]
        found += [f"group {group} got members on the target meanwhile" for group in came]
        used = [group for group in facts.get("changing", []) if group not in hindered]
        found += [f"group {group} is in use on the target: what others commit for it there stays" for group in used]
        found += [f"group {group}: {hindrance}" for group, hindrance in hindered.items()]
        found += [f"group {group} was not moved: {why}" for group, why in facts.get(NOT_TAKEN, [])]
        found += _absent(self.moves, self.taken)
        done = self.operation.step == Step.DONE.name
        if done and self.operation.kind == Kind.SWITCHOVER.value and self.missing:
            most = max(self.partitions, key=lambda each: each.missing).partition
            found.append(
                f"{self.missing} records that {self.left} has are not on {self.taken}, most in {most}, though a "
                "switchover leaves none behind: groups that have not read them skip them"
            )
        found += _late(self.moves, self.left, self.taken)
        return (*found, *facts.get("problems", []))

    @property
    def count(self) -> Count:
        """How many groups go on at the other cluster; none before the step that moves them."""
        return count(self.moves, [move.group for move in self.moves if not self.has_moved(move)])

    def has_moved(self, move: GroupMove) -> bool:
        """Whether a group goes on at the other cluster: it has all there that it is to have."""
        step = Step[self.operation.step]
        if step is Step.ABANDONED or can_be_taken_back(step, self.operation.facts):
            return False
        return bool(move.wanted) and move.is_there

    @property
    def renamed(self) -> dict[str, str]:
        """The topics whose name on the target is another one."""
        names = {each.partition.topic: each.target.topic for each in self.partitions}
        names |= {p.partition.topic: p.target.topic for move in self.moves for p in move.places if p.target is not None}
        names |= self.operation.facts.get("names", {})
        policy = policy_for(self.flow.policy, self.flow.source.alias)
        own = {name for name in names if policy.is_internal_topic(name) or policy.is_heartbeats_topic(name)}
        return {here: there for here, there in sorted(names.items()) if here != there and here not in own}

    @property
    def uses(self) -> tuple[TopicUse, ...]:
        """What becomes of each topic whose records have another name on the cluster that applications go to."""
        flow, found = self.flow, []
        policy = policy_for(flow.policy, flow.source.alias)
        for here, there in self.renamed.items():
            writes: tuple[str, ...]
            reads: tuple[str, ...]
            if there == policy.format_remote_topic(flow.source.alias, here):
                writes, reads = ((here, there) if flow.homeward_back else (here,)), (there, here)
            else:  # a copy, whose original is there
                writes, reads = ((there,) if flow.brings_home else ()), (there,)
            found.append(TopicUse(topic=here, producers=writes, consumers=reads))
        return tuple(found)

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
        "steps": [
            {"step": name.lower(), "began": _moment(began), "seconds": round((ended - began) / 1000, 1)}
            for name, began, ended in _steps(operation)
        ],
        "interruptions": _interruptions(operation),
        "moved": {"groups": report.count.groups, "offsets": report.count.offsets, "of_groups": report.count.known},
        "lost_records": report.missing,
        "repeated_records": _repeated(report.moves),
        "offsets_without_place": len(_without(report.moves)),
        "offsets_left_further": sum(len(move.further) for move in report.moves),
        "offsets_skipped": sum(place.skipped for move in report.moves for place in move.skipping),
        "troubles": list(report.troubles),
        "notes": list(report.notes),
        "partitions": [_partition(each) for each in report.partitions],
        "groups": [_group(each, moved=report.has_moved(each)) for each in report.moves],
        "applications": {
            "bootstrap.servers": ",".join(report.flow.target.consumer.bootstrap_servers),
            "topics": report.renamed,
            "producers": {each.topic: list(each.producers) for each in report.uses},
            "consumers": {each.topic: list(each.consumers) for each in report.uses},
        },
        "divergent": _divergent(operation),
        "fenced_topics": _denied(operation),
        "forgotten_offsets": [
            {"group": group, "target_topic": topic, "partition": number, "offset": offset}
            for group, topic, number, offset in operation.facts.get(FORGOTTEN, [])
        ],
    }


def as_markdown(report: Report) -> str:
    """For people. Names and errors of clusters are escaped, also those that would be markup."""
    operation = report.operation
    head = f"{operation.kind.capitalize()} {report.left} to {report.taken}: {_result(report)}"
    lines = [
        f"# {literal(head)}",
        "",
        _what(report),
        "",
        f"- groups that go on on {literal(report.taken)}: **{report.count.text}**",
        *_losses(report),
        *_section("What did not go as it should", [f"- {literal(text)}" for text in report.troubles]),
        *_section("What is to be known", [f"- {literal(text)}" for text in report.notes]),
        *_section("What applications have to change", _applications(report)),
        *_section(f"Topics of {report.left} that nobody may write to", _fenced(report)),
        *_section("Interruptions", table(_INTERRUPTION_HEAD, list(map(_interruption_row, _interruptions(operation))))),
        *_section("Steps", table(("step", "begun", "seconds"), [_step_row(step) for step in _steps(operation)])),
        *_section("Topics", table(_TOPIC_HEAD, [_topic_row(name, each) for name, each in _by_topic(report).items()])),
        *_section("Groups", table(_GROUP_HEAD, [_group_row(move) for move in report.moves])),
        *_section(*_divergent_section(operation)),
        *_section("Partitions that lack records", table(_LACKING_HEAD, _lacking(report.partitions))),
        *_section("Offsets of groups", table(_PLACE_HEAD, [_place_row(m, p) for m in report.moves for p in m.places])),
    ]
    return "\n".join(printable(line) for line in lines) + "\n"


_INTERRUPTION_HEAD = ("in step", "done before", "last record", "by", "why", "resumed", "by")
_TOPIC_HEAD = ("topic", "on the target", "partitions", "records missing", "source seen last")
_GROUP_HEAD = ("group", "partitions moved", "read twice", "ahead of the copy", "seen on the source last", "remark")
_LACKING_HEAD = ("partition", "copied up to", "source end", "missing", "seen last")
_PLACE_HEAD = ("group", "partition", "committed", "on the target", "offset there", "what lies there")


def _divergent(operation: Operation) -> list[dict[str, Any]]:
    in_topics = operation.facts.get("divergent_as") == Keep.TOPIC.value
    return [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "first": one.first,
            "last": one.end - 1,
            "kept_in": kept_as(one.partition.topic, operation.began_ms, one.part) if in_topics else None,
        }
        for one in Comparison.of(operation.facts).found
    ]


def _divergent_section(operation: Operation) -> tuple[str, list[str]]:
    rows = [
        (f"{one['topic']}-{one['partition']}", str(one["first"]), str(one["last"]), one["kept_in"] or "")
        for one in _divergent(operation)
    ]
    head = ("partition", "from offset", "to offset", "kept in")
    return f"What only {operation.source} has", table(head, rows)


def _what(report: Report) -> str:
    operation = report.operation
    times = f"{_moment(operation.began_ms)} to {_moment(operation.time_ms)} ({report.seconds:.1f} s)"
    flow = code(str(report.flow.name))
    return f"{code(operation.id)}, flow {flow}, by {literal(operation.by)}, {times}"


def _result(report: Report) -> str:
    if report.operation.failure:
        return "interrupted"
    return Step[report.operation.step].value if not report.troubles else "done, with trouble"


def _losses(report: Report) -> list[str]:
    left, taken = literal(report.left), literal(report.taken)
    unknown = sum(each.end == NO_OFFSET for each in report.partitions)
    lines = [f"- records of the source that are not on the target, as far as is known: **{report.missing}**"]
    if unknown:
        lines.append(f"- partitions whose end on the source was never seen: {unknown}")
    if doubtful := [str(each.partition) for each in report.partitions if each.doubtful]:
        lines.append(f"- partitions of which more may have been copied than is on record: **{_some(doubtful)}**")
    if absent := [str(each.target) for each in report.partitions if each.absent]:
        lines.append(
            f"- copies that were deleted on {taken}, whose records only {left} has: **{len(absent)}** ({_some(absent)})"
        )
    if report.operation.kind == Kind.FAILOVER.value and report.partitions:
        moments = [each.seen_ms for each in report.partitions if each.seen_ms]
        if moments:
            since = _moment(min(moments))
            lines.append(f"- what the source took after it was seen last (from {since} on) cannot be known")
        if len(moments) < len(report.partitions):
            count = len(report.partitions) - len(moments)
            lines.append(f"- partitions of which it is not known when the source was seen last: {count}")
    twice = _repeated(report.moves)
    lines.append(
        f"- records that groups read twice: **{'not known' if twice is None else twice}**{_again(report.moves)}"
    )
    if without := _without(report.moves):
        where = f"groups begin there at what they have committed on {taken}, or where `auto.offset.reset` says"
        lines.append(f"- offsets of groups that have no place on {taken}: **{len(without)}** ({where})")
    if further := [f"{move.group} at {place.partition}" for move in report.moves for place in move.further]:
        why = "others than the flow have committed them, and groups skip what they have not read there"
        where = f"{_some(further)}: {why}"
        lines.append(f"- offsets of groups left further than their translation: **{len(further)}** ({where})")
    if skipping := [(f"{move.group} at {place.partition}", place) for move in report.moves for place in move.skipping]:
        where = f"{_some([name for name, _ in skipping])}: they were never copied, or are gone on {taken}"
        count = sum(place.skipped for _, place in skipping)
        lines.append(f"- offsets that groups skip: up to **{count}** ({where})")
    return [*lines, *_forgotten(report)]


def _forgotten(report: Report) -> list[str]:
    """What groups that the source has no more still have on the other cluster, a line for all."""
    names = [f"{group} at {topic}-{number}" for group, topic, number, _ in report.operation.facts.get(FORGOTTEN, [])]
    left, taken = literal(report.left), literal(report.taken)
    why = f"{left} has them no more, and readers go on on {taken} where the flow had put them"
    return (
        [f"- offsets of groups that are not on record any more: **{len(names)}** ({_some(names)}: {why})"]
        if names
        else []
    )


def _some(names: Sequence[str]) -> str:
    return literal(some(names))


def _again(moves: Sequence[GroupMove]) -> str:
    """Where it is not known how many records groups read twice."""
    names = [f"{move.group} at {place.partition}" for move in moves for place in move.inexact]
    return f" for {_some(names)}" if names else ""


def _without(moves: Sequence[GroupMove]) -> list[MovedPlace]:
    """The offsets in copied topics, of groups that are moved, that have no place on the other cluster."""
    return [place for move in moves if not move.hindrance for place in move.left_out]


def _absent(moves: Sequence[GroupMove], taken: str) -> list[str]:
    """The groups whose partitions do not exist on the cluster that they go to, a line for all."""
    left_out = [f"{move.group} at {place.target}" for move in moves for place in move.absent]
    why = f"which do not exist on {taken}, cannot be committed, and are left out: {some(left_out)}"
    return [f"the offsets of groups in {len(left_out)} partitions, {why}"] if left_out else []


def _late(moves: Sequence[GroupMove], left: str, taken: str) -> list[str]:
    """The places in which a group has another offset where it was than the one by which it was moved, each a line."""
    return [
        f"group {move.group} at {place.partition}: its offset on {left} leads to {place.late} by now, and on {taken} "
        f"it has {'none' if place.offset == NO_OFFSET else place.offset}: it has committed on {left} after its offsets "
        f"were read (stop its consumers there), or {taken} has lost what it had since"
        for move in moves
        for place in move.places
        if place.late != NO_OFFSET
    ]


def _applications(report: Report) -> list[str]:
    servers = ",".join(report.flow.target.consumer.bootstrap_servers)
    shown = code(f"bootstrap.servers={servers}")
    if not report.uses:
        return [f"- {shown}", "- topics keep their names, for producers and consumers"]
    head = (f"topic on {report.left}", f"producers write to, on {report.taken}", f"consumers read, on {report.taken}")
    rows = [(code(each.topic), _names(each.producers, " or "), _names(each.consumers, " and ")) for each in report.uses]
    create = "A topic that producers write to has to exist there, or to be made."
    return [f"- {shown}", "", *table(head, rows, cell=None), "", create]


def _names(topics: Sequence[str], between: str) -> str:
    return between.join(map(code, topics)) or "nothing: it is a copy, which only the mirror writes"


def _fenced(report: Report) -> list[str]:
    names = _denied(report.operation)
    if not names or report.operation.step != Step.DONE.name:
        return []
    back, release = report.flow.name.back, code(f"sparkmirror release FILE --flow '{report.flow.name}' --fence-only")
    waits = f"{code(str(back))} cannot write to them either, and waits. " if report.flow.tells_writers else ""
    return [f"{waits}A failback ends this, or {release}.", "", *(f"- {code(name)}" for name in names)]


def _denied(operation: Operation) -> list[str]:
    """The topics that nobody may write to now."""
    return sorted({rule.name for rule in fence.rules_of(operation.facts.get(FENCE, []))})


def _steps(operation: Operation) -> list[tuple[str, int, int]]:
    """Each step that was done, with its begin and its end in milliseconds since 1970."""
    times: Mapping[str, Sequence[int]] = operation.facts.get("times", {})
    return [(name, began, ended) for name, (began, ended) in times.items()]


def _step_row(step: tuple[str, int, int]) -> tuple[str, str, str]:
    name, began, ended = step
    return name.lower(), _moment(began), f"{(ended - began) / 1000:.1f}"


def _interruptions(operation: Operation) -> list[dict[str, Any]]:
    """Where an operation was interrupted, what had been done by then, and when it went on."""
    return [
        {
            "step": step.lower(),
            "done_before": [name.lower() for name, _, ended in _steps(operation) if ended <= last_ms],
            "last_record": _moment(last_ms),
            "by": by,
            "reason": failure,
            "resumed": _moment(resumed_ms),
            "resumed_by": resumed_by,
        }
        for step, last_ms, by, failure, resumed_ms, resumed_by in operation.facts.get(INTERRUPTIONS, [])
    ]


def _interruption_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["step"],
        ", ".join(row["done_before"]) or "nothing",
        row["last_record"],
        row["by"],
        row["reason"] or "the command ended without a word",
        row["resumed"],
        row["resumed_by"],
    )


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
        "not known" if twice is None else str(twice),
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
    committed = "" if place.gone else str(place.committed.offset)
    return move.group, str(place.partition), committed, there, offset, place.text


def _partition(each: PartitionState) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "target_topic": each.target.topic,
        "copied_up_to": each.position,
        "source_end": None if each.end == NO_OFFSET else each.end,
        "source_seen": _moment(each.seen_ms),
        "missing": None if each.end == NO_OFFSET or each.doubtful else each.missing,
        "copy_deleted": each.absent,
    }


def _group(move: GroupMove, *, moved: bool) -> dict[str, Any]:
    return {
        "group": move.group,
        "source_seen": _moment(move.seen_ms),
        "moved": moved,
        "hindrance": move.hindrance,
        "repeated": _repeated((move,)),
        "partitions": [
            {
                "topic": place.partition.topic,
                "partition": place.partition.partition,
                "committed": None if place.gone else place.committed.offset,
                "target_topic": None if place.target is None else place.target.topic,
                "offset": None if place.offset == NO_OFFSET else place.offset,
                "ahead": place.ahead,
                "further": place.further,
                "skipped": place.skipped,
                "exact": place.exact and not place.skipped and not place.absent,
                "text": place.text,
            }
            for place in move.places
        ],
    }


def _repeated(moves: Sequence[GroupMove]) -> int | None:
    """Records below what groups had committed that they read again; None where a map leaves it open."""
    return None if any(move.inexact for move in moves) else 0


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {literal(title)}", "", *lines] if lines else []


def _moment(time_ms: int) -> str:
    return (
        f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z" if time_ms else "never"
    )

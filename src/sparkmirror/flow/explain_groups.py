"""Where a consumer group stands in each flow, and why: for each partition that it has committed.

Invariant: this is the look of the duties that translate groups, so what it says is what they would do next.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config import FlowConfig, MirrorConfig
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.groups import GroupLine, copies_of, explain_group
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.sides import BOTH, connected, record


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExplanation:
    """Of one group in one flow.

    Attributes:
        flow: ``source->target``.
        group: its name.
        lines: one for each partition, or one for the whole.
        duties: what the flow does with groups.
        failure: why nothing is known, or "".
    """

    flow: str
    group: str
    lines: tuple[GroupLine, ...] = ()
    duties: str = ""
    failure: str = ""


def explain(config: MirrorConfig, group: str) -> tuple[GroupExplanation, ...]:
    """Explains a group for every flow of the configuration."""
    return tuple(_explain(flow, group) for flow in config.flows)


def _explain(flow: FlowConfig, group: str) -> GroupExplanation:
    told = GroupExplanation(flow=str(flow.name), group=group, duties=_duties(flow))
    try:
        with connected(flow, role="explain", needs=BOTH) as sides:
            if record(sides) is None:
                sides.store = None
            look = GroupLook(sides, patience_s=0)
            observed = look.look(target=True)
            observed = look.with_log_starts(observed, copies_of(observed, (group,)))
    except SparkmirrorError as failure:
        return GroupExplanation(flow=told.flow, group=group, duties=told.duties, failure=str(failure))
    return GroupExplanation(flow=told.flow, group=group, duties=told.duties, lines=explain_group(observed, group))


def _duties(flow: FlowConfig) -> str:
    groups = flow.groups
    said = [
        f"a checkpoint every {groups.checkpoints_interval_s:g} s"
        if groups.checkpoints_enabled
        else "no checkpoints: emit.checkpoints.enabled is false",
        f"offsets are committed on the target every {groups.sync_interval_s:g} s"
        if groups.sync_enabled
        else "no offsets are committed on the target: sync.group.offsets.enabled is false",
    ]
    return "; ".join(said)

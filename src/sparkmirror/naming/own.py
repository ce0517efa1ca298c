"""A replication policy of the user's own, as the rest of sparkmirror asks it.

Invariants: sparkmirror's own topics are internal whatever the policy says; what it answers is of the right type, or a
ConfigError that names the question; a policy that leads in circles is no endless loop.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

from sparkmirror.config import PolicyChoice
from sparkmirror.config.policies import told
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias
from sparkmirror.naming.policies import HEARTBEATS_TOPIC, DefaultReplicationPolicy

T = TypeVar("T")

LONGEST_WAY = 100
"""Clusters that a topic may have come through."""


class OwnReplicationPolicy:
    """Asks an own policy.

    Args:
        choice: names the class.
        source: of the flow.
        default: answers what the policy leaves open.
    """

    def __init__(self, choice: PolicyChoice, source: Alias, default: DefaultReplicationPolicy) -> None:
        module, name = choice.path.split(":")
        self._choice = choice
        self._source = source
        self._default = default
        self._policy: Any = getattr(importlib.import_module(module), name)(dict(choice.settings))

    def format_remote_topic(self, source_alias: Alias, topic: str) -> str:
        """The policy's answer."""
        answer = self._ask("format_remote_topic", str, str(source_alias), topic)
        if answer == topic and not self._choice.keeps_names:
            raise self._wrong(
                f"format_remote_topic keeps the name {topic!r}, though it changes others: neither name nor writer "
                "would tell that a record comes back",
                "change every name, or set keeps_names = True on the class and change none",
            )
        return answer

    def topic_source(self, topic: str) -> Alias | None:
        """The policy's answer."""
        found = self._ask_maybe("topic_source", topic)
        return None if found is None else Alias(found)

    def upstream_topic(self, topic: str) -> str | None:
        """The policy's answer."""
        return self._ask_maybe("upstream_topic", topic)

    def original_topic(self, topic: str) -> str:
        """The name where the policy's upstream topics end."""
        return self._way(topic)[-1]

    def is_internal_topic(self, topic: str) -> bool:
        """The policy's answer, and yes for sparkmirror's own topics."""
        if self._has("is_internal_topic") and self._ask("is_internal_topic", bool, topic):
            return True
        own = topic.startswith("sparkmirror.") and topic.endswith(".internal")
        return own or (not self._has("is_internal_topic") and self._default.is_internal_topic(topic))

    def heartbeats_topic(self) -> str:
        """The policy's answer, or ``heartbeats``."""
        return self._ask("heartbeats_topic", str) if self._has("heartbeats_topic") else HEARTBEATS_TOPIC

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the original name is that of the heartbeats topic."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_cycle(self, topic: str, target_alias: Alias) -> bool:
        """Whether the target is among the clusters that the topic has come through."""
        return any(self.topic_source(name) == target_alias for name in self._way(topic))

    def offset_syncs_topic(self, other: Alias) -> str:
        """The policy's answer, or the default one."""
        if self._has("offset_syncs_topic"):
            return self._ask("offset_syncs_topic", str, str(other))
        return self._default.offset_syncs_topic(other)

    def checkpoints_topic(self, source_alias: Alias) -> str:
        """The policy's answer, or the default one."""
        if self._has("checkpoints_topic"):
            return self._ask("checkpoints_topic", str, str(source_alias))
        return self._default.checkpoints_topic(source_alias)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it is the flow's topic of checkpoints, or ends like one."""
        return topic == self.checkpoints_topic(self._source) or self._default.is_checkpoints_topic(topic)

    def _way(self, topic: str) -> list[str]:
        """The topic's name, and those that it had on the clusters before."""
        way = [topic]
        while (upstream := self.upstream_topic(way[-1])) is not None and upstream != way[-1]:
            way.append(upstream)
            if len(way) > LONGEST_WAY:
                raise self._wrong(f"upstream_topic leads from {topic!r} over more than {LONGEST_WAY} topics")
        return way

    def _has(self, question: str) -> bool:
        return callable(getattr(self._policy, question, None))

    def _ask(self, question: str, kind: type[T], *arguments: str) -> T:
        answer = self._answer(question, *arguments)
        if not isinstance(answer, kind) or answer == "":
            asked = f"{question}({', '.join(map(repr, arguments))})"
            raise self._wrong(f"{asked} gave {self._shown(answer)}, not a {kind.__name__}")
        return answer

    def _ask_maybe(self, question: str, topic: str) -> str | None:
        answer = self._answer(question, topic)
        if answer is not None and (not isinstance(answer, str) or not answer):
            raise self._wrong(f"{question}({topic!r}) gave {self._shown(answer)}, neither a name nor None")
        return answer

    def _answer(self, question: str, *arguments: str) -> object:
        try:
            return getattr(self._policy, question)(*arguments)
        except Exception as failure:  # noqa: BLE001 - it is told
            asked = f"{question}({', '.join(map(repr, arguments))})"
            shown = told(failure, secretive=self._choice.secretive)
            raise self._wrong(f"{asked} failed: {shown}") from (failure if str(failure) in shown else None)

    def _shown(self, answer: object) -> str:
        """An answer that is none; of a policy that knows a secret its type."""
        return type(answer).__name__ if self._choice.secretive and answer != "" else repr(answer)

    def _wrong(self, reason: str, remedy: str = "correct the class") -> ConfigError:
        choice = self._choice
        reason = f"{choice.path}: {reason}"
        return ConfigError(file=choice.file, key=choice.key, reason=reason, remedy=remedy)

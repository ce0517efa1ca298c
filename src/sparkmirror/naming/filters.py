"""Which names a configuration means: lists of expressions to include and to exclude.

Invariants: an expression must match the whole name; an exclude wins; an empty list of includes means nothing. A name
for which an expression has no answer in time (``config.matching``) is not meant: not included, or excluded.

Reference: MirrorMaker 2's ``DefaultTopicFilter``, ``DefaultGroupFilter`` and ``DefaultConfigPropertyFilter``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkmirror.config import FlowConfig
from sparkmirror.config.expressions import compile_list


class TopicFilter:
    """Says which topics, or which groups, are meant.

    Args:
        include: Java regular expressions.
        exclude: the same; wins.
        file: where they are written, for errors.
        keys: the keys of the two lists there, for errors.

    Raises:
        ConfigError: an expression cannot be used.
    """

    __slots__ = ("_exclude", "_include")

    def __init__(
        self,
        include: Sequence[str],
        exclude: Sequence[str],
        *,
        file: str = "configuration",
        keys: tuple[str, str] = ("topics", "topics.exclude"),
    ) -> None:
        self._include = compile_list(include, file=file, key=keys[0])
        self._exclude = compile_list(exclude, file=file, key=keys[1])

    def included(self, name: str) -> bool:
        """Whether the first list names it."""
        return self._include is not None and self._include.matches(name) is True

    def excluded(self, name: str) -> bool:
        """Whether the second list names it."""
        return self._exclude is not None and self._exclude.matches(name) is not False

    def matches(self, name: str) -> bool:
        """Whether it is meant: included and not excluded."""
        return self.included(name) and not self.excluded(name)

    def learn(self, names: Iterable[str]) -> None:
        """Many names will be asked about: expressions that take long are tried on all of them at once."""
        names = list(names)
        for expression in (self._include, self._exclude):
            if expression is not None:
                expression.learn(names)


class ConfigPropertyFilter:
    """Says which topic properties are copied: those that ``config.properties.exclude`` does not name."""

    __slots__ = ("_exclude",)

    def __init__(
        self, exclude: Sequence[str], *, file: str = "configuration", key: str = "config.properties.exclude"
    ) -> None:
        self._exclude = compile_list(exclude, file=file, key=key)

    def matches(self, name: str) -> bool:
        """Whether the property is copied."""
        return self._exclude is None or self._exclude.matches(name) is False


def topic_filter(flow: FlowConfig, file: str = "") -> TopicFilter:
    """The topic filter of a flow; ``file`` is named in errors, else the flow.

    Raises:
        ConfigError: an expression cannot be used.
    """
    return TopicFilter(flow.topics, flow.topics_exclude, file=file or f"flow {flow.name}")


def group_filter(flow: FlowConfig, file: str = "") -> TopicFilter:
    """The group filter of a flow; ``file`` is named in errors, else the flow.

    Raises:
        ConfigError: an expression cannot be used.
    """
    keys = ("groups", "groups.exclude")
    return TopicFilter(flow.groups.include, flow.groups.exclude, file=file or f"flow {flow.name}", keys=keys)


def append_filter(flow: FlowConfig, file: str = "") -> TopicFilter:
    """The topics that may be copied behind records of others; ``file`` is named in errors, else the flow.

    Raises:
        ConfigError: an expression cannot be used.
    """
    return TopicFilter(flow.topics_append, (), file=file or f"flow {flow.name}", keys=("topics.append", ""))


def config_property_filter(flow: FlowConfig, file: str = "") -> ConfigPropertyFilter:
    """The filter of topic properties of a flow; ``file`` is named in errors, else the flow.

    Raises:
        ConfigError: an expression cannot be used.
    """
    return ConfigPropertyFilter(flow.config_properties_exclude, file=file or f"flow {flow.name}")

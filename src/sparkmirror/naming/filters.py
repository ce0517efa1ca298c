"""Which names a configuration means: lists of expressions to include and to exclude.

Invariants: an expression must match the whole name; an exclude wins; an empty list of includes means nothing.

Reference: MirrorMaker 2's ``DefaultTopicFilter``, ``DefaultGroupFilter`` and ``DefaultConfigPropertyFilter``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
        return _whole(self._include, name)

    def excluded(self, name: str) -> bool:
        """Whether the second list names it."""
        return _whole(self._exclude, name)

    def matches(self, name: str) -> bool:
        """Whether it is meant: included and not excluded."""
        return self.included(name) and not self.excluded(name)


class ConfigPropertyFilter:
    """Says which topic properties are copied: those that ``config.properties.exclude`` does not name."""

    __slots__ = ("_exclude",)

    def __init__(
        self, exclude: Sequence[str], *, file: str = "configuration", key: str = "config.properties.exclude"
    ) -> None:
        self._exclude = compile_list(exclude, file=file, key=key)

    def matches(self, name: str) -> bool:
        """Whether the property is copied."""
        return not _whole(self._exclude, name)


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


def _whole(pattern: re.Pattern[str] | None, name: str) -> bool:
    return pattern is not None and pattern.fullmatch(name) is not None

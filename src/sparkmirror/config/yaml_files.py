"""YAML text to the maps of its documents, read as Kubernetes reads it.

Invariants: text without end is no danger, since depth and size are limited while the text is parsed, aliases counted by
what they stand for; no message holds text of the file, which may be part of a secret.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import yaml

from sparkmirror.config.key_names import shown_field
from sparkmirror.errors import ConfigError

DEPTH = 100
"""Levels of lists and maps; a resource of Strimzi has about ten."""

NODES = 20_000
"""Lists, maps and scalars of a file, aliases followed; PyYAML reads as many in two or three seconds."""

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {
    "alias": "it names an anchor that is not there",
    "second occurrence": "an anchor stands twice",
    "a constructor for the tag": "a tag is not known: a text that begins with ! or = needs quotation marks",
    "tag handle": "a tag is not known: a text that begins with ! needs quotation marks",
}
"""What is said instead of messages that quote the file: an anchor or a tag may be a secret without quotation marks."""


def documents(text: str, file: str) -> Iterator[Any]:
    """What each document of a text holds; None for an empty one.

    Raises:
        ConfigError: it is no YAML, or more of it than a resource has; names the line.
    """
    try:
        yield from yaml.load_all(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        sign = error.character if isinstance(error.character, int) else ord(error.character)
        reason = f"is no YAML: it holds the character U+{sign:04X}, which may not stand there"
        raise ConfigError(file=file, key=f"line {line}", reason=reason) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(
            file=file, key=f"line {mark.line + 1}" if mark else "", reason=f"is no YAML: {_without_text(error)}"
        ) from None


class _RefusedError(yaml.MarkedYAMLError):
    """Our own, whose words may be shown."""


def _refused(reason: str, mark: Any) -> _RefusedError:
    return _RefusedError(None, None, reason, mark)


def _without_text(error: yaml.MarkedYAMLError) -> str:
    if isinstance(error, _RefusedError):
        return str(error.problem)
    problem = error.problem or error.context or "it cannot be read"
    return next((said for words, said in _WORDS.items() if words in problem), problem)


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one map, as Kubernetes does; PyYAML would take the last one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node, as long as there are neither too many nor too many levels of them."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # types-PyYAML leaves it out
        before = self._nodes
        self._depth += 1
        self._nodes += 1
        self._limit(event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                raise _refused("a part of it holds itself", event.start_mark)
            self._nodes += self._sizes[id(node)]
            self._limit(event.start_mark)
        else:
            self._sizes[id(node)] = self._nodes - before
        if isinstance(node, yaml.ScalarNode) and _SURROGATE.search(node.value):
            raise _refused("it holds half of a character", node.start_mark)
        return node

    def _limit(self, mark: Any) -> None:
        if self._depth > DEPTH:
            raise _refused(f"it is nested deeper than {DEPTH} levels", mark)
        if self._nodes > NODES:
            reason = f"it holds more than {NODES} values, aliases followed"
            raise _refused(reason, mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node."""
        try:
            if node.tag in _NUMBERS and ":" in str(node.value):
                raise ValueError("base 60")
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of PyYAML, for !!int x
            kind = node.tag.rpartition(":")[2]
            reason = f"a value is no {kind} that can be read: a text needs quotation marks"
            raise _refused(reason, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The map of a node."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise _refused(f"{shown_field(key.value)!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _as_in_kubernetes(resolvers: Mapping[str, list[tuple[str, Any]]]) -> dict[str, list[tuple[str, Any]]]:
    return {
        first: [(tag, _without_base_60(text) if tag in _NUMBERS else text) for tag, text in known if tag != _TIMESTAMP]
        for first, known in resolvers.items()
    }


def _without_base_60(text: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"(?!.*:)(?:{text.pattern})", text.flags)


# What looks like a date or a time is a text, as in Kubernetes: PyYAML reads 22:22 as 1342.
_Loader.yaml_implicit_resolvers = _as_in_kubernetes(yaml.SafeLoader.yaml_implicit_resolvers)

"""What may be part of a topic's name: aliases and separators become parts of it."""

from __future__ import annotations

import re

from sparkmirror.config.entries import Entry

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_MAX = 249
_ALIAS_MAX = 100
"""Two aliases and the rest of an internal topic's name must fit into Kafka's 249 characters."""


def check_alias(entry: Entry, alias: str) -> None:
    """Sees that an alias can stand in a topic's name.

    Raises:
        ConfigError: it cannot.
    """
    if not _LEGAL.fullmatch(alias):
        raise entry.wrong(
            f"{entry.tell_name(alias)} cannot be part of a topic's name",
            "letters, digits, dots, hyphens and underscores can",
        )
    if len(alias) > _ALIAS_MAX:
        raise entry.wrong(f"the alias {entry.tell_name(alias)} is longer than {_ALIAS_MAX} characters")


def check_separator(entry: Entry, separator: str) -> None:
    """Sees that a separator can stand in a topic's name.

    Raises:
        ConfigError: it cannot.
    """
    if not _LEGAL.fullmatch(separator):
        raise entry.wrong(
            f"{entry.tell_name(separator)} cannot be part of a topic's name",
            "letters, digits, dots, hyphens and underscores can",
        )


def check_topic(entry: Entry, topic: str) -> None:
    """Sees that a topic can have this name, and that nobody would take it for an internal one.

    Raises:
        ConfigError: it cannot.
    """
    if not _LEGAL.fullmatch(topic) or topic in (".", "..") or len(topic) > _TOPIC_MAX:
        raise entry.wrong(
            f"{entry.tell_name(topic)} cannot be the name of a topic",
            f"at most {_TOPIC_MAX} letters, digits, dots, hyphens and underscores can",
        )
    if topic.startswith("__") or topic.endswith(".internal"):
        raise entry.wrong(f"{entry.tell(topic)} is the name of an internal topic", "choose another")

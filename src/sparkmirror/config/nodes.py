"""A place in a YAML or JSON document, for reading that names the path where something is wrong.

Invariant: what nobody reads is known afterwards (``unread``), so that it can be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.config.entries import Entry
from sparkmirror.config.key_names import BOOLEANS, shown_field
from sparkmirror.config.secret import is_key
from sparkmirror.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A map of the document.

    Attributes:
        file: as the user named it.
        path: such as ``spec.mirrors[0].sourceConnector``.
        values: the map.
        strays: paths of keys that are not known, filled by ``only``; one set for the whole document.
    """

    file: str
    path: str
    values: Mapping[str, Any]
    strays: dict[str, None] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """The path of a key."""
        shown = shown_field(str(key))  # YAML has numbers as keys
        return f"{self.path}.{shown}" if self.path else shown

    def wrong(self, reason: str, remedy: str = "", key: str = "") -> ConfigError:
        """The error that names this place, or a key of it."""
        return ConfigError(file=self.file, key=self.place(key) if key else self.path, reason=reason, remedy=remedy)

    def only(self, *known: str) -> None:
        """Notes every other key as one that is not known."""
        self.strays.update({self.place(key): None for key in self.values if key not in known})

    def text(self, key: str, default: str | None = None) -> str:
        """A text, number or boolean.

        Raises:
            ConfigError: there is none and no default, or it is a list or a map.
        """
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise self.wrong("is not set", f"give {self.place(key)}", key)
            return default
        found = scalar(value)
        if found is None:
            raise self.wrong("is no text", "write it as one text", key)
        return found

    def flag(self, key: str) -> bool:
        """A boolean, false where it is absent.

        Raises:
            ConfigError: something else.
        """
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            shown = scalar(value)  # a list or a map may stand for millions of values by its aliases
            told = "it" if shown is None else self.made(key, shown).shown_choice(BOOLEANS)
            raise self.wrong(f"{told} is neither true nor false", key=key)
        return value

    def child(self, key: str) -> Node | None:
        """A map below this one, or None.

        Raises:
            ConfigError: something else.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong("is no map", key=key)
        return Node(file=self.file, path=self.place(key), values=value, strays=self.strays)

    def needed(self, key: str) -> Node:
        """The same, which must be there.

        Raises:
            ConfigError: it is not.
        """
        found = self.child(key)
        if found is None:
            raise self.wrong("is not set", f"give {self.place(key)}", key)
        return found

    def children(self, key: str) -> Iterator[Node]:
        """The maps of a list.

        Raises:
            ConfigError: no list, or something else in it.
        """
        value = self.values.get(key)
        if value is None:
            return
        if not isinstance(value, list):
            raise self.wrong("is no list", key=key)
        for number, one in enumerate(value):
            path = f"{self.place(key)}[{number}]"
            if not isinstance(one, Mapping):
                raise ConfigError(file=self.file, key=path, reason="is no map")
            yield Node(file=self.file, path=path, values=one, strays=self.strays)

    def entry(self, key: str) -> Entry:
        """A text as an entry that carries its path."""
        return self.made(key, self.text(key))

    def made(self, key: str, raw: str) -> Entry:
        """An entry with a value that follows from what stands at a key."""
        return Entry(file=self.file, key=self.place(key), raw=raw)

    def settings(self, key: str) -> dict[str, Entry]:
        """A map of Kafka's configuration keys, each with its path; a value of null is none.

        What cannot be a key of Kafka is noted as one that is not known.

        Raises:
            ConfigError: a value that is a list or a map.
        """
        node = self.child(key)
        if node is None:
            return {}
        named = {name: str(name) for name, value in node.values.items() if value is not None}
        self.strays.update({node.place(name): None for name, text in named.items() if not is_key(text)})
        return {text: node.entry(name) for name, text in named.items() if is_key(text)}


def scalar(value: Any) -> str | None:
    """A value as Kafka's text; None where it is a list or a map."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else None

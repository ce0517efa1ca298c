"""Which properties of a source topic its copy gets: one rule for its creation and for keeping it like the source.

Invariant: the rule is MirrorMaker 2's. A property is left alone if the flow excludes it, if the source calls it
read-only or sensitive, or if it comes from the source brokers' own files. Else a value that nobody has set is the
source's or the target's default, as ``use.defaults.from`` says, and any other value is copied: one that is set for the
topic, and one that the source's brokers have as a dynamic default too.

Reference: ``MirrorSourceConnector.targetConfig`` and ``incrementalAlterConfigs`` of 4.3.1, ``ConfigEntry.isDefault``
(only what comes from nowhere else is a default), ``DefaultConfigPropertyFilter.shouldReplicateSourceDefault``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from sparkmirror.config import DefaultsFrom
from sparkmirror.kafka.configs import ConfigEntry, ConfigSource
from sparkmirror.naming import ConfigPropertyFilter


class Wish(Enum):
    """What a property of the copy shall be."""

    LEAVE = "as it is"
    SOURCE = "set to the source's value"
    DEFAULT = "not set, so that the target's default holds"


def wish(name: str, entry: ConfigEntry, properties: ConfigPropertyFilter, defaults: DefaultsFrom) -> Wish:
    """What a property of the source means for the copy.

    Args:
        name: of the property.
        entry: as the source has it.
        properties: the flow's filter.
        defaults: whose default holds where nobody has set the property.
    """
    if entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER or not properties.matches(name):
        return Wish.LEAVE
    if entry.is_default and defaults is DefaultsFrom.TARGET:
        return Wish.DEFAULT
    # A value that is not told cannot be set; MirrorMaker 2 would send it and be refused with all the others.
    return Wish.LEAVE if entry.value is None else Wish.SOURCE


def at_creation(
    entries: Mapping[str, ConfigEntry], properties: ConfigPropertyFilter, defaults: DefaultsFrom
) -> dict[str, str]:
    """The properties that a copy is created with, in order of their names; what is not set needs no word then."""
    return {
        name: entry.value or ""
        for name, entry in sorted(entries.items())
        if wish(name, entry, properties, defaults) is Wish.SOURCE
    }

"""Which format a file has, by its suffix or else by what is in it, and the flows of several files together.

.properties        MirrorMaker 2's own
.json              connectors of Kafka Connect
.yaml, .yml        Strimzi's KafkaMirrorMaker2, one or more, with Secrets beside them
any other name     { or [ begins JSON; apiVersion: stands in YAML; all else is properties
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from sparkmirror.config import connect, json_files, mirror_maker, strimzi, yaml_files
from sparkmirror.config.files import UnreadableError, read_bytes, read_text
from sparkmirror.config.key_names import shown_name
from sparkmirror.config.keys import FILE
from sparkmirror.config.notices import notices
from sparkmirror.config.opened import Opened
from sparkmirror.config.properties import PropertiesFile, read_properties
from sparkmirror.config.providers import DECLARATION, declared
from sparkmirror.config.secrets import Manifest, read_manifest
from sparkmirror.errors import ConfigError

_API_VERSION = re.compile(r"^apiVersion\s*:", re.MULTILINE)


class Format(Enum):
    """What a file may be."""

    PROPERTIES = "properties"
    JSON = "JSON"
    YAML = "YAML"


_SUFFIXES = {
    ".properties": Format.PROPERTIES,
    ".json": Format.JSON,
    ".yaml": Format.YAML,
    ".yml": Format.YAML,
}


def open_files(paths: Sequence[Path]) -> list[Opened]:
    """Reads files of any format; connectors in JSON files are put together, wherever they stand.

    Raises:
        ConfigError: a file cannot be read, or holds no flow that is read here.
    """
    opened: list[Opened] = []
    documents: list[tuple[str, Any]] = []
    for path in paths:
        kind = format_of(path)
        if kind is Format.PROPERTIES:
            opened.append(_open_properties(read_properties(path)))
        elif kind is Format.JSON:
            documents.append((str(path), json_files.parse(_text(path), str(path))))
        else:
            opened += _open_yaml(path)
    if documents:
        opened.append(connect.open_connectors(documents))
    return opened


def format_of(path: Path) -> Format:
    """The format of a file.

    Raises:
        ConfigError: it has another name than usual, and cannot be read.
    """
    if (known := _SUFFIXES.get(path.suffix.lower())) is not None:
        return known
    try:
        text = read_bytes(path).decode("latin-1").lstrip("\xef\xbb\xbf \t\r\n")
    except UnreadableError as refused:
        raise ConfigError(file=str(path), key="", reason=str(refused)) from None
    if text.startswith(("{", "[")):
        return Format.JSON
    return Format.YAML if _API_VERSION.search(text) else Format.PROPERTIES


def _open_properties(file: PropertiesFile) -> Opened:
    """Reads what a file says about clusters, flows and providers.

    Raises:
        ConfigError: its clusters, its enabled flows or its providers cannot be.
    """
    providers = declared(file.entries)
    aliases = mirror_maker.read_aliases(file, providers.resolve)
    enabled = mirror_maker.enabled_flows(file, aliases, providers.resolve)
    keys = dict(mirror_maker.connector_entries(file, aliases))
    shown = mirror_maker.shown_aliases(file, aliases)
    example = "->".join(shown[:2]) if len(shown) > 1 else "A->B"
    return Opened(
        file=file.file,
        aliases=aliases,
        shown=shown,
        flows={flow: keys[flow] for flow in enabled},
        idle={flow: flat for flow, flat in keys.items() if flow not in enabled},
        pulses=mirror_maker.pulse_pairs(file, aliases, providers.resolve),
        providers=providers,
        several_aliases=mirror_maker.several_aliases(file, providers.resolve),
        kept=tuple(
            entry
            for key, entry in file.entries.items()
            if key.startswith(DECLARATION) or (key in FILE and key != "clusters")
        ),
        enable=f"set {example}.enabled = true",
        warnings=notices(file, aliases),
    )


def _open_yaml(path: Path) -> list[Opened]:
    file = str(path)
    documents = list(_documents(_text(path), file))
    manifests: dict[str, Manifest] = {}
    for document in documents:
        if document.get("kind") in ("Secret", "ConfigMap"):
            name, manifest = read_manifest(document, file)
            manifests[name] = manifest
    resources = [document for document in documents if document.get("kind") == strimzi.KIND]
    if not resources:
        kinds = [_kind(document) for document in documents]
        raise strimzi.refuse_missing(file, kinds)
    others = [_kind(one) for one in documents if one.get("kind") not in (strimzi.KIND, "Secret", "ConfigMap")]
    warnings = (f"{file}: not read: {', '.join(others)}",) if others else ()
    opened = [strimzi.open_resource(resource, file, manifests) for resource in resources]
    return [replace(opened[0], warnings=(*warnings, *opened[0].warnings)), *opened[1:]]


def _documents(text: str, file: str) -> list[Mapping[str, Any]]:
    """The maps of a YAML file; a List of Kubernetes is its items."""
    found: list[Mapping[str, Any]] = []
    for document in yaml_files.documents(text, file):
        if document is not None and not isinstance(document, Mapping):
            raise strimzi.refuse_missing(file, [f"a {type(document).__name__}"])
        if document is not None and document.get("kind") == "List":
            items = document.get("items")
            found += [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
        elif document:
            found.append(document)
    return found


def _kind(document: Mapping[str, Any]) -> str:
    return shown_name(str(document.get("kind", "a map without kind")))


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except UnreadableError as refused:
        raise ConfigError(file=str(path), key="", reason=str(refused)) from None

"""Configuration files to frozen, checked values."""

from sparkmirror.config.beginnings import Beginning, StartPlace, StartPlaces, StoredPositions, places_of_offsets
from sparkmirror.config.convert import SECRETS_FILE, as_properties
from sparkmirror.config.effective import Row, effective, origin_of
from sparkmirror.config.formats import open_files
from sparkmirror.config.groups import GroupSettings
from sparkmirror.config.load import load, settle, without_takeover
from sparkmirror.config.mirror_maker_1 import COMMAND, Command, open_command
from sparkmirror.config.mirror_topics import HeartbeatSettings, OffsetSyncSettings, Side
from sparkmirror.config.opened import Opened
from sparkmirror.config.secret import HIDDEN, Secret
from sparkmirror.config.security_settings import (
    FixedToken,
    Kerberos,
    OAuth,
    Refresh,
    SaslMechanism,
    Security,
    SecurityProtocol,
    TlsVersion,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
)
from sparkmirror.config.settings import (
    AclSync,
    AutoOffsetReset,
    ClientSettings,
    DeadLetters,
    DefaultsFrom,
    Drift,
    Endpoint,
    FlowConfig,
    GoOn,
    Isolation,
    MirrorConfig,
    Policies,
    PolicyChoice,
    PolicyKind,
    Refill,
    Tolerance,
)

__all__ = [
    "COMMAND",
    "HIDDEN",
    "SECRETS_FILE",
    "AclSync",
    "AutoOffsetReset",
    "Beginning",
    "ClientSettings",
    "Command",
    "DeadLetters",
    "DefaultsFrom",
    "Drift",
    "Endpoint",
    "FixedToken",
    "FlowConfig",
    "GoOn",
    "GroupSettings",
    "HeartbeatSettings",
    "Isolation",
    "Kerberos",
    "MirrorConfig",
    "OAuth",
    "OffsetSyncSettings",
    "Opened",
    "Policies",
    "PolicyChoice",
    "PolicyKind",
    "Refill",
    "Refresh",
    "Row",
    "SaslMechanism",
    "Secret",
    "Security",
    "SecurityProtocol",
    "Side",
    "StartPlace",
    "StartPlaces",
    "StoredPositions",
    "TlsVersion",
    "TokenEndpoint",
    "TokenFile",
    "Tolerance",
    "UnsecuredToken",
    "as_properties",
    "effective",
    "load",
    "open_command",
    "open_files",
    "origin_of",
    "places_of_offsets",
    "settle",
    "without_takeover",
]

"""Configuration files to frozen, checked values."""

from sparkmirror.config.effective import Row, effective
from sparkmirror.config.groups import GroupSettings
from sparkmirror.config.load import load
from sparkmirror.config.mirror_topics import HeartbeatSettings, OffsetSyncSettings, Side
from sparkmirror.config.secret import HIDDEN, Secret
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
    SaslMechanism,
    Security,
    SecurityProtocol,
    TlsVersion,
    Tolerance,
)

__all__ = [
    "HIDDEN",
    "AclSync",
    "AutoOffsetReset",
    "ClientSettings",
    "DeadLetters",
    "DefaultsFrom",
    "Drift",
    "Endpoint",
    "FlowConfig",
    "GoOn",
    "GroupSettings",
    "HeartbeatSettings",
    "Isolation",
    "MirrorConfig",
    "OffsetSyncSettings",
    "Policies",
    "PolicyChoice",
    "PolicyKind",
    "Refill",
    "Row",
    "SaslMechanism",
    "Secret",
    "Security",
    "SecurityProtocol",
    "Side",
    "TlsVersion",
    "Tolerance",
    "effective",
    "load",
]

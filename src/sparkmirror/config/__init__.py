"""Configuration files to frozen, checked values."""

from sparkmirror.config.secret import HIDDEN, Secret
from sparkmirror.config.settings import (
    AutoOffsetReset,
    ClientSettings,
    Endpoint,
    FlowConfig,
    Isolation,
    MirrorConfig,
    PolicyChoice,
    PolicyKind,
    SaslMechanism,
    Security,
    SecurityProtocol,
)

__all__ = [
    "HIDDEN",
    "AutoOffsetReset",
    "ClientSettings",
    "Endpoint",
    "FlowConfig",
    "Isolation",
    "MirrorConfig",
    "PolicyChoice",
    "PolicyKind",
    "SaslMechanism",
    "Secret",
    "Security",
    "SecurityProtocol",
]

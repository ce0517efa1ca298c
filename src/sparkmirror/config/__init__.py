"""Configuration files to frozen, checked values."""

from sparkmirror.config.effective import Row, effective
from sparkmirror.config.load import load
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
    TlsVersion,
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
    "Row",
    "SaslMechanism",
    "Secret",
    "Security",
    "SecurityProtocol",
    "TlsVersion",
    "effective",
    "load",
]

"""The policy that a flow's configuration chose."""

from __future__ import annotations

import functools

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.model import Alias
from sparkmirror.naming.own import OwnReplicationPolicy
from sparkmirror.naming.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy


@functools.cache
def policy_for(choice: PolicyChoice, source: Alias) -> ReplicationPolicy:
    """The policy that a flow from ``source`` names its topics with; an own policy is made once.

    Raises:
        ConfigError: an own policy is not what it was when the file was read.
    """
    internal = choice.separator if choice.internal_separator_follows else "."
    default = DefaultReplicationPolicy(separator=choice.separator, internal_separator=internal)
    if choice.kind is PolicyKind.OWN:
        return OwnReplicationPolicy(choice, source, default)
    if choice.kind is PolicyKind.IDENTITY:
        return IdentityReplicationPolicy(source_alias=source, default=default)
    return default

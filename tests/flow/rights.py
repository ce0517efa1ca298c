"""What a cluster with an authorizer lets the mirror's user do."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import admin_of

USER = "User:mirror"
GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""The settings of such a cluster: those who do not log in may do everything."""


def allow(
    cluster: LabCluster,
    kind: ResourceType,
    name: str,
    *operations: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    principal: str = USER,
) -> None:
    admin = admin_of(cluster)
    wanted = [AclBinding(kind, name, pattern, principal, "*", each, AclPermissionType.ALLOW) for each in operations]
    for future in admin.create_acls(wanted).values():
        future.result(60)


def forbid(
    cluster: LabCluster,
    kind: ResourceType,
    name: str,
    operation: AclOperation,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> None:
    admin = admin_of(cluster)
    some = AclBindingFilter(kind, name, pattern, USER, "*", operation, AclPermissionType.ALLOW)
    for future in admin.delete_acls([some]).values():
        assert future.result(60)

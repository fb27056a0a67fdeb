"""The interface through which every API checks what a client may do.

Resources and operations are Kafka's. A refused request gets the authorization error of its
resource. ``AllowAll`` is the authorizer of a cluster without access control.
"""

from enum import IntEnum
from typing import Final, Protocol

from headwater.broker.network.client_session import ClientSession
from headwater.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)


class Operation(IntEnum):
    """Kafka's ``AclOperation``."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(IntEnum):
    """Kafka's ``ResourceType``."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type ``CLUSTER``."""


class Authorizer(Protocol):
    """Answers from memory: Produce and Fetch ask it for each partition."""

    def allows(
        self, session: ClientSession, operation: Operation, resource: Resource, name: str
    ) -> bool:
        """Whether the session's principal may do this operation on the named resource."""
        ...

    def allows_any(self, session: ClientSession, operation: Operation, resource: Resource) -> bool:
        """Whether it may do this operation on at least one resource of that type."""
        ...


class AllowAll:
    """An ``Authorizer`` that refuses nothing."""

    def allows(
        self, _session: ClientSession, _operation: Operation, _resource: Resource, _name: str
    ) -> bool:
        return True

    def allows_any(
        self, _session: ClientSession, _operation: Operation, _resource: Resource
    ) -> bool:
        return True


_REFUSALS: Final[dict[Resource, type[KafkaError]]] = {
    Resource.TOPIC: TopicAuthorizationFailed,
    Resource.GROUP: GroupAuthorizationFailed,
    Resource.CLUSTER: ClusterAuthorizationFailed,
    Resource.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}
_OPERATIONS: Final[dict[Resource, tuple[Operation, ...]]] = {
    Resource.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""The operations that replies list for each type of resource."""


def require(
    authorizer: Authorizer,
    session: ClientSession,
    operation: Operation,
    resource: Resource,
    name: str = CLUSTER_NAME,
) -> None:
    """Raises the resource's authorization error unless the session may do this."""
    if not authorizer.allows(session, operation, resource, name):
        raise refusal(session, operation, resource, name)


def refusal(
    session: ClientSession, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
) -> KafkaError:
    """The authorization error of a client that may not do this."""
    what = f"{operation.name} on {resource.name} {name}"
    return _REFUSALS[resource](f"{session.principal} is not authorized to {what}")


def allowed_operations(
    authorizer: Authorizer, session: ClientSession, resource: Resource, name: str
) -> int:
    """The operations that the session may do on a resource, as Kafka's bit field: bit n is
    operation n.

    >>> allowed_operations(AllowAll(), ClientSession("PLAINTEXT", 1), Resource.GROUP, "group")
    3400
    """
    allows = authorizer.allows
    return sum(
        1 << operation
        for operation in _OPERATIONS[resource]
        if allows(session, operation, resource, name)
    )


def cluster_operations(authorizer: Authorizer, session: ClientSession) -> int:
    """The same for the cluster; 0 if the client may not describe it."""
    if not authorizer.allows(session, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return allowed_operations(authorizer, session, Resource.CLUSTER, CLUSTER_NAME)

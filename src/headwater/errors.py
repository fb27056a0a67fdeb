"""Every error that Headwater raises on purpose, in one tree.

HeadwaterError
├── ConfigurationError            a setting, flag or file is wrong; the process stops with one line
├── MalformedRequest              a request breaks its schema; the connection closes
├── RequestSuperseded             the client has sent the request again; the connection closes
├── UnknownApi                    no API has that key; the connection closes
├── StoreError                    a metadata store, object store or catalog failed
│   ├── StoreUnavailable          it did not answer; nothing was written; a retry can help
│   │   ├── StoreGone             its data was deleted; a broker that uses it stops
│   │   └── ObjectStoreUnavailable the object store failed, not the metadata store
│   ├── UnknownOutcome            the answer was lost; the write may have been committed
│   ├── TransactionTooLarge       a transaction is too large for the store; nothing was written
│   ├── ObjectNotFound            no object has that key
│   ├── WatchTrimmed              the store has trimmed changes that a watch needs
│   ├── SessionLost               the session expired; its ephemeral keys are deleted
│   ├── StorageFull               no space left
│   ├── UnknownFormat             a value was written by a newer release
│   ├── CatalogUnavailable        the table catalog did not answer; repeating the call is safe
│   ├── CommitConflict            a table has other offsets than a commit expects
│   └── TableMismatch             a table is not the one that Headwater made
└── KafkaError                    has a Kafka error code and is sent to a client
    ├── RefusedRecords            some records of a batch are invalid
    └── ...                       one class per code, below

``KafkaError.code`` is the error code that a client gets, and ``retriable`` says whether a retry of
the client can help.
"""

from collections.abc import Sequence
from typing import ClassVar


class HeadwaterError(Exception):
    """The root; never raised itself."""


class ConfigurationError(HeadwaterError):
    """Raised if a setting is wrong; its text is the one line that the user sees."""


class MalformedRequest(HeadwaterError):
    """Raised when a request is cut short, has bytes left over or breaks its own schema."""


class RequestSuperseded(HeadwaterError):
    """Raised if a client has sent the same request again on another connection."""


class UnknownApi(HeadwaterError):
    """Raised when a request names an API that Kafka's protocol does not have."""


class StoreError(HeadwaterError):
    """The root of the errors of metadata stores, object stores and table catalogs."""


class StoreUnavailable(StoreError):
    """Raised when a store did not answer: nothing was written, and a retry can help."""


class StoreGone(StoreUnavailable):
    """Raised when a store's data was deleted while this process uses it: a retry cannot help."""


class ObjectStoreUnavailable(StoreUnavailable):
    """Raised when an object store, not a metadata store, refused a request.

    A retry helps only if a subclass says so.
    """


class UnknownOutcome(StoreError):
    """Raised when the answer to a write was lost: the caller must find out its outcome."""


class TransactionTooLarge(StoreError, ValueError):
    """Raised when a transaction has too many bytes for the store; nothing was written."""


class ObjectNotFound(StoreError):
    """Raised when no object has the key."""


class WatchTrimmed(StoreError):
    """Raised by a watch if the store has trimmed the next changes: scan, then watch again."""


class SessionLost(StoreError):
    """Raised when a session is used that has expired or was closed."""


class StorageFull(StoreError):
    """Raised when a store has no space left; the write had no effect."""


class UnknownFormat(StoreError):
    """Raised when a stored value has a format version that this release does not know."""


class CatalogUnavailable(StoreError):
    """Raised when the table catalog, or the storage of its metadata, did not answer.

    The outcome of a commit may be unknown; repeating it is always safe and can help.
    """


class CommitConflict(StoreError):
    """Raised when a table does not have the watermark or files that a commit expects.

    The same commit will not succeed later: the caller must read the log again.
    """


class TableMismatch(StoreError):
    """Raised when another program dropped, changed or created a table: a person must decide."""


class KafkaError(HeadwaterError):
    """The root of the errors that clients see, each with Kafka's own code."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False


class RefusedRecords(KafkaError):
    """The root of errors that name the invalid records of a batch, if they are known."""

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors
        """By invalid record: its index in the batch and a message."""


class OffsetOutOfRange(KafkaError):
    """Raised when a fetch asks for an offset below log start or above the high watermark."""

    code = 1


class CorruptMessage(KafkaError):
    """Raised when a batch fails its CRC or its header contradicts itself."""

    code = 2
    retriable = True


class UnknownTopicOrPartition(KafkaError):
    """Raised when a topic or partition does not exist."""

    code = 3
    retriable = True


class LeaderNotAvailable(KafkaError):
    """Raised when a topic that a client asked for will exist soon; the client asks again."""

    code = 5
    retriable = True


class NotLeaderOrFollower(KafkaError):
    """Raised when this broker lost its right to write (it was fenced); the client asks another."""

    code = 6
    retriable = True


class RequestTimedOut(KafkaError):
    """Raised when a store did not answer in time, or when the outcome of a write is unknown.

    This is the only error after which a write may have been committed or may still be.
    """

    code = 7
    retriable = True


class MessageTooLarge(KafkaError):
    """Raised when a batch is larger than ``max.message.bytes``."""

    code = 10


class InvalidTopic(KafkaError):
    """Raised when a topic's name is not legal."""

    code = 17


class UnsupportedVersion(KafkaError):
    """Raised when a request's version cannot be served."""

    code = 35


class TopicAlreadyExists(KafkaError):
    """Raised by CreateTopics for a name in use."""

    code = 36


class InvalidPartitions(KafkaError):
    """Raised when a partition count is not legal."""

    code = 37


class InvalidReplicationFactor(KafkaError):
    """Raised when a replication factor is not legal."""

    code = 38


class InvalidReplicaAssignment(KafkaError):
    """Raised when a manual assignment does not fit the brokers or partitions."""

    code = 39


class InvalidConfig(KafkaError):
    """Raised when a configuration's name is unknown or its value is not legal."""

    code = 40


class InvalidRequest(KafkaError):
    """Raised when a request contradicts itself."""

    code = 42


class UnsupportedForMessageFormat(KafkaError):
    """Raised when a batch has a magic that is not served."""

    code = 43


class PolicyViolation(KafkaError):
    """Raised when a request is legal but this cluster forbids it."""

    code = 44


class OutOfOrderSequence(KafkaError):
    """Raised when an idempotent producer's sequence number skips or goes back."""

    code = 45


class InvalidProducerEpoch(KafkaError):
    """Raised when a producer writes with an epoch older than the one committed."""

    code = 47


class InvalidTxnState(KafkaError):
    """Raised when a producer writes outside of its open transaction on a partition."""

    code = 48


class TransactionCoordinatorFenced(KafkaError):
    """Raised when a marker comes from a transaction coordinator that was replaced."""

    code = 52


class InvalidTimestamp(RefusedRecords):
    """Raised when a timestamp is not legal for the topic."""

    code = 32


class KafkaStorageError(KafkaError):
    """Raised when a store failed and an append had no effect; a retry can help."""

    code = 56
    retriable = True


class FencedLeaderEpoch(KafkaError):
    """Raised when a client's leader epoch is older than the cluster's."""

    code = 74
    retriable = True


class UnknownLeaderEpoch(KafkaError):
    """Raised when a client's leader epoch is newer than the cluster's."""

    code = 75
    retriable = True


class UnsupportedCompressionType(KafkaError):
    """Raised when a batch's codec is not known or not allowed in that request version."""

    code = 76


class InvalidRecord(RefusedRecords):
    """Raised when a record breaks its topic's rules, such as a missing key on a compacted topic."""

    code = 87


class ThrottlingQuotaExceeded(KafkaError):
    """Raised when a client creates or deletes partitions faster than its quota allows."""

    code = 89
    retriable = True


class UnknownTopicId(KafkaError):
    """Raised when no topic has that id."""

    code = 100
    retriable = True


class CoordinatorNotAvailable(KafkaError):
    """Raised when a coordinator cannot read or write its state at the moment."""

    code = 15
    retriable = True


class CoordinatorLoading(KafkaError):
    """Raised while a coordinator reads a group again from the metadata store."""

    code = 14
    retriable = True


class InvalidGroupId(KafkaError):
    """Raised when a group id is too long."""

    code = 24


class TopicAuthorizationFailed(KafkaError):
    """Raised when a client may not do the requested operation on a topic."""

    code = 29


class GroupAuthorizationFailed(KafkaError):
    """Raised when a client may not do the requested operation on a group."""

    code = 30


class ClusterAuthorizationFailed(KafkaError):
    """Raised when a client may not do the requested operation on the cluster."""

    code = 31


class TransactionalIdAuthorizationFailed(KafkaError):
    """Raised when a client may not use a transactional id."""

    code = 53


class GroupTooLarge(KafkaError):
    """Raised when a group's state would be too large to store; the group keeps its old state.

    The code is Kafka's for a group whose record is too large for its offsets topic.
    """

    code = -1


class NotCoordinator(KafkaError):
    """Raised when another broker coordinates the group, or this broker's lease has expired."""

    code = 16
    retriable = True

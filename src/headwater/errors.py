"""Every error that Headwater raises on purpose, in one tree.

HeadwaterError
├── ConfigurationError            a setting, flag or file is wrong; the process stops with one line
├── MalformedRequest              a frame does not hold what its header says; the connection closes
├── UnknownApi                    no API has that key; the connection closes
├── StoreError                    a store below us misbehaved
│   ├── StoreUnavailable          it did not answer; nothing was written; a retry can help
│   │   ├── StoreGone             its data is no longer there: a broker that uses it stops
│   │   └── ObjectStoreUnavailable it was the object store, not the metadata store
│   ├── UnknownOutcome            the answer was lost; the write may or may not have landed
│   ├── ObjectNotFound            no object under that key
│   ├── WatchTrimmed              the watch fell behind what the store keeps; resynchronise
│   ├── SessionLost               the session expired; its ephemeral keys are gone
│   ├── StorageFull               no space left
│   ├── UnknownFormat             a value was written by a newer release
│   ├── CatalogUnavailable        the table catalog did not answer; repeating the call is safe
│   ├── CommitConflict            a table holds other offsets than a commit builds on
│   └── TableMismatch             a table is not the one that Headwater made; someone must look
└── KafkaError                    has a Kafka error code and goes back to a client
    └── ...                       one class per code that we give, below

A ``KafkaError`` says in ``code`` which of Kafka's error codes a client gets and in
``retriable`` whether a client's own retry can help.
"""

from collections.abc import Sequence
from typing import ClassVar


class HeadwaterError(Exception):
    """The root; never raised itself."""


class ConfigurationError(HeadwaterError):
    """Raised at start-up when a setting is wrong; its text is the one line that the user sees."""


class MalformedRequest(HeadwaterError):
    """Raised when a request is cut short, has bytes left over or breaks its own schema."""


class RequestSuperseded(HeadwaterError):
    """Raised where a client gave a request up and asked the same again on another connection."""


class UnknownApi(HeadwaterError):
    """Raised when a request names an API that Kafka's protocol does not have."""


class StoreError(HeadwaterError):
    """The root of what the metadata and object stores raise."""


class StoreUnavailable(StoreError):
    """Raised when a store did not take the request: nothing was written, a retry can help."""


class StoreGone(StoreUnavailable):
    """Raised when a store's data was taken away under this process: a retry cannot help."""


class ObjectStoreUnavailable(StoreUnavailable):
    """Raised when an object store, not a metadata store, did not take the request.

    A retry helps only where a subclass says so: this class itself is a refusal.
    """


class UnknownOutcome(StoreError):
    """Raised when a write's answer was lost: the caller must find out whether it landed."""


class TransactionTooLarge(StoreError, ValueError):
    """Raised when a transaction has more bytes than the store takes; nothing was written."""


class ObjectNotFound(StoreError):
    """Raised when an object is not there."""


class WatchTrimmed(StoreError):
    """Raised by a watch whose start is older than what the store keeps: scan, then watch again."""


class SessionLost(StoreError):
    """Raised when a session is used that has expired or was closed by someone else."""


class StorageFull(StoreError):
    """Raised when a store has no space left; nothing of the write counts."""


class UnknownFormat(StoreError):
    """Raised when a stored value has a format version that this release does not know."""


class CatalogUnavailable(StoreError):
    """Raised when the table catalog, or the storage of its metadata, did not answer.

    Whether a commit landed may be unknown; to repeat it is always safe, and can help.
    """


class CommitConflict(StoreError):
    """Raised when a table's watermark or files are not those that a commit builds on.

    The same commit will not succeed later: the caller looks at the log again.
    """


class TableMismatch(StoreError):
    """Raised when a table was dropped, changed or made by someone else: a person decides."""


class KafkaError(HeadwaterError):
    """The root of the errors that clients see, each with Kafka's own code."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False


class RefusedRecords(KafkaError):
    """The root of what says which records of a batch were at fault, where that is known."""

    def __init__(self, message: str, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = record_errors
        """(index in the batch, message) of each."""


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

    It is the one error after which a write may have landed or may still land.
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
    """Raised when a number of partitions is not legal."""

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
    """Raised when a producer writes outside of the transaction that it has open on a partition."""

    code = 48


class TransactionCoordinatorFenced(KafkaError):
    """Raised when a marker comes from a transaction coordinator that another one replaced."""

    code = 52


class InvalidTimestamp(RefusedRecords):
    """Raised when a timestamp is not legal for the topic."""

    code = 32


class KafkaStorageError(KafkaError):
    """Raised when a store failed below an append and nothing of it landed; a retry can help."""

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
    """Raised when a coordinator cannot read or write its groups at the moment."""

    code = 15
    retriable = True


class CoordinatorLoading(KafkaError):
    """Raised while a coordinator reads a group again from the metadata store."""

    code = 14
    retriable = True


class InvalidGroupId(KafkaError):
    """Raised when a group id is longer than the coordinator takes."""

    code = 24


class TopicAuthorizationFailed(KafkaError):
    """Raised when a client may not do to a topic what it asks for."""

    code = 29


class GroupAuthorizationFailed(KafkaError):
    """Raised when a client may not do to a group what it asks for."""

    code = 30


class ClusterAuthorizationFailed(KafkaError):
    """Raised when a client may not do to the cluster what it asks for."""

    code = 31


class TransactionalIdAuthorizationFailed(KafkaError):
    """Raised when a client may not use a transactional id."""

    code = 53


class GroupTooLarge(KafkaError):
    """Raised when a group's state would exceed what is stored of a group; it stays as it was.

    The code is Kafka's for a group whose record its offsets topic does not take.
    """

    code = -1


class NotCoordinator(KafkaError):
    """Raised when another broker coordinates that group, or this one's lease has run out."""

    code = 16
    retriable = True

"""Checks a transaction against the limits of its store, before anything is written."""

from collections.abc import Sequence

from headwater.errors import TransactionTooLarge
from headwater.meta.store import Limits, Writes


def check_keys(limits: Limits, keys: Sequence[str]) -> None:
    """Raise ``ValueError`` if a transaction reads more keys than the store can compare."""
    if limits.operations is not None and len(keys) > limits.operations:
        raise ValueError(
            f"a transaction reads {len(keys)} keys; this store accepts {limits.operations}"
        )


def check_writes(limits: Limits, writes: Writes) -> None:
    """Raise ``ValueError`` if a transaction has more writes than the store accepts.

    Raises ``TransactionTooLarge``, a ``ValueError`` too, if a value has too many bytes.
    """
    if limits.operations is not None:
        count = len(writes.puts) + len(writes.deletes) + len(writes.range_deletes)
        # A store that cannot delete and put one key in a transaction deletes the ranges around it.
        count += sum(
            1 for start, end in writes.range_deletes for key in writes.puts if start <= key < end
        )
        if count > limits.operations:
            raise ValueError(
                f"a transaction has {count} writes; this store accepts {limits.operations}"
            )
    if limits.value_bytes is not None:
        for key, value in writes.puts.items():
            if len(value) > limits.value_bytes:
                raise TransactionTooLarge(
                    f"the value of {key} has {len(value)} bytes; "
                    f"this store accepts {limits.value_bytes}"
                )

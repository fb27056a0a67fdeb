"""What a transaction may hold, checked before anything is written."""

from collections.abc import Sequence

from headwater.errors import TransactionTooLarge
from headwater.meta.store import Limits, Writes


def check_keys(limits: Limits, keys: Sequence[str]) -> None:
    """Raise ``ValueError`` where a transaction asks for more keys than the store compares."""
    if limits.operations is not None and len(keys) > limits.operations:
        raise ValueError(
            f"a transaction over {len(keys)} keys exceeds this store's {limits.operations}"
        )


def check_writes(limits: Limits, writes: Writes) -> None:
    """Raise ``ValueError`` where a transaction writes more than the store takes at once.

    It is ``TransactionTooLarge`` where a value has too many bytes.
    """
    if limits.operations is not None:
        count = len(writes.puts) + len(writes.deletes) + len(writes.range_deletes)
        # A store that cannot delete and put a key at once deletes around it.
        count += sum(
            1 for start, end in writes.range_deletes for key in writes.puts if start <= key < end
        )
        if count > limits.operations:
            raise ValueError(
                f"a transaction of {count} writes exceeds this store's {limits.operations}"
            )
    if limits.value_bytes is not None:
        for key, value in writes.puts.items():
            if len(value) > limits.value_bytes:
                raise TransactionTooLarge(
                    f"the value of {key} has {len(value)} bytes, more than this store's "
                    f"{limits.value_bytes}"
                )

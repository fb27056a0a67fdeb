"""A metadata store that loses an answer and lands the attempt when a test says so."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headwater.errors import HeadwaterError, UnknownOutcome
from headwater.meta.memory import MemoryStore
from headwater.meta.store import CommitResult, Decide

T = TypeVar("T")


class LateStore(MemoryStore):
    """Holds one transaction back on request, and reports its outcome as unknown."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        """Whether the next transaction is held back."""
        self.holds_tail = False
        """Whether the next one is that writes a stream's tail."""
        self._held: Callable[[], Awaitable[None]] | None = None

    async def transact(
        self, domain: int, keys: Sequence[str], decide: Decide[T]
    ) -> CommitResult[T]:
        if self.holds or (self.holds_tail and self._writes_tail(keys, decide)):
            self.holds = self.holds_tail = False
            before = {key: await self.get(key) for key in keys}

            async def land() -> None:
                # What stores compare: the keys are as they were when the attempt was made.
                if before == {key: await self.get(key) for key in keys}:
                    await super(LateStore, self).transact(domain, keys, decide)

            self._held = land
            raise UnknownOutcome("lost")
        return await super().transact(domain, keys, decide)

    def _writes_tail(self, wanted: Sequence[str], decide: Decide[T]) -> bool:
        try:
            writes, _ = decide({key: self.database.entries.get(key) for key in wanted})
        except HeadwaterError:
            return False
        return any("/tail/" in key for key in writes.puts)

    async def land(self) -> None:
        assert self._held is not None
        await self._held()

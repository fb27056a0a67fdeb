"""How much of the matrix of faults is run: a short form, or all of it by ``make chaos``."""

import os
from collections.abc import Sequence
from typing import Final, TypeVar

SIZE: Final = int(os.environ.get("HEADWATER_CHAOS_SIZE", "0"))
"""0 is the short form; from 1 on, how often the whole is gone through."""

LIMIT_SECONDS: Final = 3600 * SIZE or 180
"""What one test may take."""

T = TypeVar("T")


def some(everything: Sequence[T], short: Sequence[T]) -> list[T]:
    """Those of a matrix that are run."""
    return [each for each in everything if SIZE or each in short]


def rounds() -> range:
    return range(max(1, SIZE))

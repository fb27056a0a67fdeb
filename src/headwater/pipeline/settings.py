"""What an operator may set about the pipeline."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Where Spark runs, when a range is compacted, and how large files become."""

    master: str = "local[*]"
    """Spark's master."""
    file_bytes: int = 256 * MIB
    """Chunks of this many bytes become one file."""
    max_age_ms: int = 600_000
    """``--follow``: what is older is compacted though it makes a small file."""
    max_entries: int = 1000
    """``--follow``: as many index entries of a stream are compacted though they are small."""
    interval_ms: int = 10_000
    """``--follow``: how often streams are looked at."""
    claim_ms: int = 60_000
    """A job whose process was silent for so long is taken up by another."""

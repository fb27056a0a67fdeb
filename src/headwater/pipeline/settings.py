"""The section `pipeline`."""

from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from headwater.setting_types import Natural, Positive

MIB: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """The Spark jobs that compact topics into their tables."""

    master: Annotated[
        str,
        Meta(
            min_length=1, description="Spark's master, such as `local[*]` or `spark://HOST:PORT`."
        ),
    ] = "local[*]"
    file_bytes: Annotated[
        int,
        Meta(
            ge=2**20,
            le=2**32,
            description="Bytes of record batches per file; 128 to 512 MiB is best.",
        ),
    ] = 256 * MIB
    max_age_ms: Annotated[
        Natural,
        Meta(description="`--follow` compacts records of this age even into a small file."),
    ] = 600_000
    max_entries: Annotated[
        Positive,
        Meta(
            description="`--follow` compacts a partition with this many index entries even into a "
            "small file."
        ),
    ] = 1000
    interval_ms: Annotated[
        Positive, Meta(description="`--follow` checks every partition at this interval.")
    ] = 10_000
    claim_ms: Annotated[
        Annotated[int, Meta(ge=1000)],
        Meta(
            description="Another process takes over a job whose process was silent for this time."
        ),
    ] = 60_000

"""Rows of the matrix that more than one client fills, and the records that they ask about."""

from tests.interop.records import Record

TOPICS = "create, grow, list and delete topics"
CONFIGS = "describe and alter configurations"
DELETE_RECORDS = "delete records"
CLUSTER = "describe the cluster"
BOUNDS = "first and last offsets"
BY_TIME = "offsets by time"

TIMES = (1_700_000_000_000, 1_700_000_005_000, 1_700_000_010_000)
TIMED = [Record(b"v", b"k", (), time) for time in TIMES]
"""Five seconds apart."""

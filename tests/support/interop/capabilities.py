"""Rows of the matrix that more than one client fills, and the records that they ask about."""

from tests.support.interop.records import InteropRecord

CLUSTER = "DescribeCluster or Metadata"
BOUNDS = "ListOffsets, first and last"
BY_TIME = "ListOffsets, by time"
IN_A_GROUP = "group, range assignor"
STATIC_CONSUMERS = "group, static members in the consumer protocol"

TIMES = (1_700_000_000_000, 1_700_000_005_000, 1_700_000_010_000)
TIMED = [InteropRecord(b"v", b"k", (), time) for time in TIMES]
"""Five seconds apart."""

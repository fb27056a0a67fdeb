"""Writes several buffers to a file without joining them."""

import os
from collections.abc import Sequence

from headwater.objects.store import Buffer

IOV_MAX = os.sysconf("SC_IOV_MAX")


def write_all(number: int, parts: Sequence[Buffer], position: int) -> None:
    """Write the concatenation of ``parts`` at ``position``, with as many calls as necessary."""
    views = [view for part in parts if (view := memoryview(part).cast("B"))]
    first = 0
    while first < len(views):
        written = os.pwritev(number, views[first : first + IOV_MAX], position)
        position += written
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]

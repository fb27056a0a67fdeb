"""A commit of puts as one statement, on a view whose triggers compare the revision and write."""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import apsw

from headwater.meta.feed import Item
from headwater.meta.sqlite.changes import encode
from headwater.meta.store import Writes

MOST_PUTS = 512
PADDED_TO = 32
"""Above it statements differ by so many rows: few of them are to be kept prepared."""

SCHEMA = """
CREATE TEMP VIEW step AS SELECT NULL AS key, NULL AS value, NULL AS revision;
CREATE TEMP TRIGGER step_change INSTEAD OF INSERT ON step
  WHEN NEW.key IS NULL AND NEW.value IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'others have committed')
    WHERE (SELECT max(revision) FROM change) IS NOT NEW.revision - 1;
  INSERT INTO change VALUES (NEW.revision, NEW.value);
END;
CREATE TEMP TRIGGER step_put INSTEAD OF INSERT ON step WHEN NEW.key IS NOT NULL
BEGIN
  INSERT INTO kv VALUES (NEW.key, NEW.value, NEW.revision, NULL)
    ON CONFLICT (key) DO UPDATE SET
    value = excluded.value, revision = excluded.revision, session = excluded.session;
END;
"""
"""For the one connection. A row of ``step`` with no key is the change, one of NULLs is nothing."""


def is_one_step(writes: Writes) -> bool:
    """Whether these are puts alone, and not too many."""
    others = writes.ephemeral or writes.deletes or writes.range_deletes
    return not others and 0 < len(writes.puts) <= MOST_PUTS


def put_in_one_step(cursor: apsw.Cursor, revision: int, items: Sequence[Item]) -> bool:
    """Commit ``items`` as that revision; False, and nothing is written, if it is not the next."""
    rows = len(items)
    if rows > PADDED_TO:
        rows = -(-rows // PADDED_TO) * PADDED_TO
    padding = [None] * (2 * (rows - len(items)))
    bindings = [revision, encode(items), *chain.from_iterable(items), *padding]
    try:
        cursor.execute(_statement(rows), bindings)
    except apsw.ConstraintError:
        return False
    return True


@cache
def _statement(rows: int) -> str:
    values = ", ".join(f"(?{2 * row + 3}, ?{2 * row + 4}, ?1)" for row in range(rows))
    return f"INSERT INTO step VALUES (NULL, ?2, ?1), {values}"  # noqa: S608 - digits only

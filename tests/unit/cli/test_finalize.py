"""``headwater cluster finalize``: it asks before what cannot be undone."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner, Result

from headwater.cli.root import headwater
from headwater.clock import SystemClock
from headwater.cluster_record import ClusterRecord
from headwater.meta import keys
from headwater.meta.sqlite import SqliteStore
from headwater.meta.store import Values, Writes
from headwater.meta.transactions import transact
from headwater.meta.values import encode


async def make_cluster(database: Path, level: int) -> None:
    """A cluster without brokers, as an older release left it."""
    store = await SqliteStore.open(database, SystemClock())

    def decide(_: Values) -> tuple[Writes, None]:
        writes = Writes()
        writes.put(keys.CLUSTER, encode(ClusterRecord(id="c", level=level)))
        return writes, None

    await transact(store, [keys.CLUSTER], decide)
    await store.close()


def finalize(place: Path, *words: str) -> Result:
    command = ["cluster", "finalize", "--data", str(place), *words]
    return CliRunner().invoke(headwater, command, prog_name="headwater")


def test_finalizing_asks_first_and_a_script_says_yes(tmp_path: Path) -> None:
    asyncio.run(make_cluster(tmp_path / "metadata.db", 1))
    refused = finalize(tmp_path)
    assert refused.exit_code == 2
    assert "confirm it with --yes" in refused.stderr
    tried = json.loads(finalize(tmp_path, "--dry-run", "--json").stdout)
    assert tried == {"before": 1, "after": 2, "dry_run": True}
    done = json.loads(finalize(tmp_path, "--yes", "--json").stdout)
    assert done == {"before": 1, "after": 2, "dry_run": False}
    again = finalize(tmp_path)
    assert again.stdout == "The cluster is at feature level 2; there is nothing to finalize.\n"

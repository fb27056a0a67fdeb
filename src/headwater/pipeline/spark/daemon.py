"""The daemon that forks Spark's Python workers, ready for our tasks before it forks.

Spark asks every task's worker to look at all of ``sys.path`` anew, which is slow for jars and
archives; they are taken off. What tasks use is imported and compiled once, here, and kept out of
the workers' garbage collections. A task then costs Python 2 ms in place of 140.
"""

import gc
import sys

_ARCHIVES = (".jar", ".zip")
_TASKS = "pyspark.worker"
"""What the workers run that execute tasks."""


def forget_archives() -> None:
    """Take jars and archives off the import path; Spark's Python part is installed beside us."""
    sys.path[:] = [path for path in sys.path if not path.endswith(_ARCHIVES)]
    for path in [path for path in sys.path_importer_cache if path.endswith(_ARCHIVES)]:
        del sys.path_importer_cache[path]


def main() -> None:
    """Serve Spark's requests for workers until it closes the pipe."""
    forget_archives()
    from pyspark import daemon

    # Spark has other daemons for planning, whose workers decode no records.
    if sys.argv[1:] == [_TASKS]:
        from headwater.pipeline.compaction.range_task import warm_up

        warm_up()
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()

"""The ``headwater`` command: one module or package for each subcommand.

Heavy imports (the Kafka client, the broker, Spark) are inside the functions that need them, so that
``--help`` and shell completion are fast.

- ``root``: the root command and the exit codes
- ``serve``: run a broker, or several as worker processes
- ``topic``, ``produce``, ``consume``, ``group``: ordinary Kafka clients
- ``table``: compact topics into their Iceberg tables, and maintain these
- ``sql``: Spark SQL over topics
- ``fsck``: check a cluster
- ``status``: data, requests and cost of a cluster
- ``cluster``: drain brokers, finalize upgrades
- ``restore``: restore a cluster from its objects
- ``completion``: shell completion
- ``client``: options and errors of the Kafka clients
- ``store_options``: ``--data``, ``--metadata`` and ``--objects``
- ``objects``: open the object store for a command
- ``process_exit``: how the process ends
- ``terminal``: tables, JSON, progress bars and questions
"""

import sys


def main() -> None:
    """Run the command line; the entry point of the ``headwater`` script.

    If Hypothesis is installed, kio registers test strategies with it, and Hypothesis creates a
    directory in the working directory. Commands do not need it, so its import is blocked.
    """
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from headwater.cli.process_exit import run_to_exit
    from headwater.cli.root import headwater

    run_to_exit(lambda: headwater(prog_name="headwater"))

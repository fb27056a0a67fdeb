"""The ``headwater`` command: one module per noun.

A module imports what is heavy (the Kafka client, the broker, tables for the terminal) inside the
function that needs it, so that ``--help`` and shell completion answer at once.
"""

import sys


def main() -> None:
    """Run the command line; the entry point of the ``headwater`` script.

    kio registers strategies for tests with Hypothesis if that is installed, as in a clone. A
    command has no use for it, and it leaves a folder in the working directory.
    """
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from headwater.cli.process_exit import run_to_exit
    from headwater.cli.root import headwater

    run_to_exit(lambda: headwater(prog_name="headwater"))

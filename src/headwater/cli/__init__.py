"""The ``headwater`` command: one module per noun.

A module imports what is heavy (the Kafka client, the broker, tables for the terminal) inside the
function that needs it, so that ``--help`` and shell completion answer at once.
"""


def main() -> None:
    """Run the command line; the entry point of the ``headwater`` script."""
    from headwater.cli.process_exit import run_to_exit
    from headwater.cli.root import headwater

    run_to_exit(lambda: headwater(prog_name="headwater"))

"""``python -m headwater.cli``, the same as the ``headwater`` script."""

from headwater.cli import main

main()

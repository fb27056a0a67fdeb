"""What commands write to a terminal, and ask there.

- ``output``: tables and JSON.
- ``progress``: a progress bar.
- ``check_progress``: a progress bar of checks, maintenance and restores.
- ``confirm``: asks before what cannot be undone.
"""

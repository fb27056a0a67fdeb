"""``headwater group``: consumer groups.

- ``commands``: the commands.
- ``facts``: members, offsets and lag, read in a few requests.
- ``options``: the options of ``reset``.
- ``reset``: the plan of ``reset``: which offset each partition gets.
"""

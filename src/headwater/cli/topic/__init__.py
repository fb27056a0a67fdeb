"""``headwater topic``: topics and their configurations.

- ``commands``: the commands.
- ``facts``: partitions, offsets and configurations, read in a few requests.
"""

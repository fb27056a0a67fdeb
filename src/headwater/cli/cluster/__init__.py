"""``headwater cluster``: brokers, drains and upgrades.

- ``commands``: the commands.
- ``facts``: what they show, read from the metadata store.
- ``drain``: requests a drain and follows it.
"""

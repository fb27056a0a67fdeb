"""Classic groups: the leader of the members assigns the partitions.

- ``group``: the state machine, with its requests.
- ``joins``: JoinGroup.
- ``rebalance``: states, timers and generations.
- ``roster``: the members of a group.
- ``member``: one member.
- ``subscription``: reads the topics from members' metadata.
- ``records``: the stored form of a group.
"""

"""Consumer groups: the coordinator, and the rules of both protocols as pure state machines.

- ``service``: the interface that the broker's handlers use.
- ``coordinator``: serves it: each request calls its group's machine or reads its offsets.
- ``runtime``: writes the machines' records, sends their replies and fires their timers.
- ``machine``: the interface of a group's state machine.
- ``classic``: the machine of classic groups (JoinGroup and SyncGroup).
- ``consumer``: the machine of consumer groups (KIP-848).
- ``group``: a group as an entry of its shard.
- ``loading``: restores groups from their records.
- ``requests``: requests and replies, independent of protocol versions.
- ``offsets``: committed offsets.
- ``expiry``: which committed offsets have expired.
- ``sweeper``: deletes expired offsets and empty groups.
- ``bounds``: limits on the size of groups.
- ``heartbeat_limiter``: slows down members that send too many heartbeats.
- ``configs``: configs of single groups.
- ``settings``: the section ``groups`` of the settings.
"""

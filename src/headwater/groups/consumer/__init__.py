"""Consumer groups (KIP-848): the coordinator assigns, and members reconcile one by one.

- ``group``: the state machine, with ConsumerGroupHeartbeat.
- ``classic_members``: requests of members that use the classic protocol.
- ``group_core``: state, timers and steps that all requests share.
- ``state``: members, epochs, targets and the records of their changes.
- ``members``: one member.
- ``reconcile``: the next step of a member towards its target.
- ``subscriptions``: the subscribed names and patterns of a group.
- ``patterns``: matches topic patterns in a thread.
- ``assignors``: computes targets.
- ``checks``: reasons to refuse a heartbeat.
- ``describe``: ConsumerGroupDescribe.
- ``migration``: converts classic groups to consumer groups and back.
- ``consumer_protocol``: reads and writes the metadata that classic consumers exchange.
- ``records``: the stored form of a group.
"""

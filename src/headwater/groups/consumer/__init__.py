"""Consumer groups (KIP-848): the coordinator assigns, members reconcile one by one."""

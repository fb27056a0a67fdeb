"""Classic groups: the members' leader assigns."""

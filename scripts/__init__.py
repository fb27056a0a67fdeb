"""What maintainers run; each module says how."""

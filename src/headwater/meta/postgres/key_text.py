"""Keys and range bounds as PostgreSQL's ``text``, which cannot contain NUL characters."""


def is_storable(key: str) -> bool:
    """Whether a key can exist; clients may ask for topics with any name."""
    return "\0" not in key


def text_bound(text: str) -> str:
    r"""A bound without NUL that divides the keys in the same way as ``text``.

    No key contains NUL, so a key with ``\x01`` appended is the first bound behind that key.

    >>> text_bound("k/a\0"), text_bound("k/a")
    ('k/a\x01', 'k/a')
    """
    kept, nul, _ = text.partition("\0")
    return f"{kept}\x01" if nul else text

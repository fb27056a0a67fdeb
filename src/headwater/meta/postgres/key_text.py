"""Keys and bounds of ranges as PostgreSQL's text, which holds every character but NUL."""


def is_storable(key: str) -> bool:
    """Whether there can be such a key; clients ask for topics of any name."""
    return "\0" not in key


def text_bound(text: str) -> str:
    r"""The bound that divides keys, none of which has a NUL, as ``text`` does.

    Right behind a key is what the least character adds to it.

    >>> bound("k/a\0"), bound("k/a")
    ('k/a\x01', 'k/a')
    """
    kept, nul, _ = text.partition("\0")
    return f"{kept}\x01" if nul else text

"""Objects that are there and objects that the offset index names."""


def only_named_are_left(*, named: set[str], there: set[str], living: set[str]) -> bool:
    """Whether no object is left that nothing names, but for what living incarnations may name yet.

    What the index names is never missing. ``named`` has to be read before ``there``, since an
    object is there before it is named, and stays for the grace time when it no longer is.
    """
    missing = named - there
    assert not missing, f"objects are gone: {missing}"
    return all(key.split("/")[1] in living for key in there - named)

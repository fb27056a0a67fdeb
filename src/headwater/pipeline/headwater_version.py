"""The installed version of Headwater."""

from functools import cache
from importlib.metadata import version


@cache
def headwater_version() -> str:
    return version("headwater")

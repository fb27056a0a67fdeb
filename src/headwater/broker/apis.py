"""Every API that is served, by its key: one for each module of ``handlers``."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from headwater.broker import handlers
from headwater.broker.network.dispatch import Api, api_table

APIS: Final[Mapping[int, Api]] = api_table(
    import_module(f"{handlers.__name__}.{module.name}").API
    for module in iter_modules(handlers.__path__)
)

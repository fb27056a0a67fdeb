"""An admin client whose operations are the methods of a class."""

from typing import Any, ClassVar


class Methods:
    """Every public method is an operation; ``variants`` are offered besides."""

    variants: ClassVar[frozenset[str]] = frozenset()

    @property
    def offers(self) -> frozenset[str]:
        own = {name for name, each in vars(type(self)).items() if callable(each)}
        return frozenset(name for name in own if not name.startswith("_")) | self.variants

    def call(self, op: str, bootstrap: str, **fields: object) -> Any:
        return getattr(self, op)(bootstrap, **fields)

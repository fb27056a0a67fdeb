"""Generating Python source for functions that are compiled from Kafka's schema."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """The body of a function under construction, and its constants."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0
        self.constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Write a line that ends in a colon; lines inside the block are its body."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        """An unused name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """Add a constant; returns its name."""
        name = self.name(stem)
        self.constants[name] = value
        return name

    def struct(self, formats: list[str], method: str) -> str:
        """The bound ``pack`` or ``unpack_from`` of a big-endian struct; returns its name."""
        name = f"{method}_{''.join(formats).replace('?', 'T')}"
        self.constants[name] = getattr(struct.Struct(">" + "".join(formats)), method)
        return name

    def compile(self, signature: str) -> Any:
        """Compile the function with the signature ``name(argument, ...)``."""
        name = signature.partition("(")[0]
        text = "\n".join([f"def {signature}:", *self._lines])
        namespace = dict(self.constants)
        code = compile(text, f"<compiled {name}>", "exec")
        exec(code, namespace)  # noqa: S102 - the text is made of schema names only
        return namespace[name]

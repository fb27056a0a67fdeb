"""Toxiproxy 2.5: a proxy between two parties that slows, cuts and resets what passes."""

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from peers.go_tool import go_program
from peers.process import ServerError, free_port
from peers.service import Service

HEAL_SECONDS = 60.0

Direction = Literal["upstream", "downstream"]
"""``upstream`` is what clients send, ``downstream`` what they receive."""


def install() -> Path:
    """The server's program, built with Go the first time."""
    return go_program(
        "toxiproxy",
        module="github.com/Shopify/toxiproxy/v2",
        version="v2.5.0",
        package="github.com/Shopify/toxiproxy/v2/cmd/server",
    )


@dataclass(frozen=True, slots=True)
class Proxy:
    """One address that leads to another. Everything passes until a toxic is added."""

    server: "Toxiproxy"
    name: str
    port: int

    @property
    def address(self) -> str:
        """Where clients connect to instead."""
        return f"127.0.0.1:{self.port}"

    def add(
        self, kind: str, *, direction: Direction = "downstream", share: float = 1.0, **values: int
    ) -> str:
        """Add a toxic of Toxiproxy's own ``kind`` to a ``share`` of the connections.

        Returns its name, which ``remove`` takes.
        """
        toxic = {"type": kind, "stream": direction, "toxicity": share, "attributes": values}
        answer = self.server.ask("POST", f"/proxies/{self.name}/toxics", toxic)
        return str(answer["name"])

    def delay(
        self, milliseconds: int, *, jitter: int = 0, direction: Direction = "downstream"
    ) -> str:
        """Hold back what passes by that long, give or take ``jitter``."""
        return self.add("latency", direction=direction, latency=milliseconds, jitter=jitter)

    def reset(self) -> str:
        """Reset every connection, those that are open and those to come."""
        return self.add("reset_peer", timeout=0)

    def swallow(self, *, direction: Direction = "upstream") -> str:
        """Let nothing through and answer nothing, as a network that drops packets."""
        return self.add("timeout", direction=direction, timeout=0)

    def limit(self, kilobytes: int, *, direction: Direction = "upstream") -> str:
        """Let at most that much through in a second, on each connection."""
        return self.add("bandwidth", direction=direction, rate=kilobytes)

    def remove(self, toxic: str) -> None:
        self.server.ask("DELETE", f"/proxies/{self.name}/toxics/{toxic}")

    def cut(self) -> None:
        """Close every connection and refuse more, until ``heal``."""
        self.server.ask("POST", f"/proxies/{self.name}", {"enabled": False})

    def heal(self) -> None:
        """Let everything pass: no toxics and no cut.

        Toxiproxy does not remove a toxic while a party that is stopped takes nothing in, and
        answers 503 after ten seconds; then it is asked again.
        """
        deadline = time.monotonic() + HEAL_SECONDS
        while True:
            try:
                for toxic in self.server.ask("GET", f"/proxies/{self.name}")["toxics"]:
                    self.remove(toxic["name"])
                self.server.ask("POST", f"/proxies/{self.name}", {"enabled": True})
            except (TimeoutError, ServerError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def close(self) -> None:
        """Remove the proxy itself."""
        self.server.ask("DELETE", f"/proxies/{self.name}")


@dataclass(slots=True, kw_only=True)
class Toxiproxy(Service):
    """A running server with no proxies."""

    def proxy(self, upstream: str, *, name: str | None = None, port: int | None = None) -> Proxy:
        """A new address that leads to ``upstream``, a ``host:port``."""
        port = port or free_port()
        name = name or f"to-{upstream.replace(':', '-')}-by-{port}"
        self.ask(
            "POST",
            "/proxies",
            {"name": name, "listen": f"127.0.0.1:{port}", "upstream": upstream, "enabled": True},
        )
        return Proxy(self, name, port)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request to the server's own interface."""
        request = urllib.request.Request(
            f"http://{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                said = answer.read()
        except urllib.error.HTTPError as refused:
            text = refused.read().decode(errors="replace")
            raise ServerError(f"Toxiproxy refused {method} {path}: {text}") from None
        return json.loads(said) if said else None


def start_toxiproxy(log: Path, *, port: int | None = None) -> Toxiproxy:
    """A server that writes what it has to say to ``log``."""
    port = port or free_port()
    command: list[str | Path] = [install(), "-host", "127.0.0.1", "-port", str(port)]
    return Toxiproxy(command=command, ports=[port], log=log)

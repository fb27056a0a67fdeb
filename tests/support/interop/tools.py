"""Kafka's command-line tools, most of them run in the Java client's program."""

from pathlib import Path

from peers.kafka import run_tool, tool_class
from tests.support.interop.clients.driven import JAVA

OWN_PROCESS = ("Verifiable", "consumer.Console", "ProducerPerf", "ConsumerPerf", "EndToEnd")
"""These write through streams, and count or measure, as if their process were theirs alone."""


def tool(name: str, bootstrap: str, *arguments: str | Path, check: bool = True) -> str:
    """All that the tool said; raises where it did not end well, unless told not to check."""
    return run(name, "--bootstrap-server", bootstrap, *arguments, check=check)


def run(name: str, *arguments: str | Path, check: bool = True) -> str:
    if name.startswith(OWN_PROCESS):
        ended = run_tool(name, *arguments, check=check)
        return (ended.stdout + ended.stderr).decode()
    words = [str(word) for word in arguments]
    done = JAVA.driver.call("tool", main=tool_class(name), arguments=words)
    said = str(done["said"])
    assert not check or done["status"] == 0, f"{name} ended with {done['status']}:\n{said}"
    return said

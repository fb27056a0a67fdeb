"""Members that subscribe to a pattern read every topic whose name it matches.

With the protocol of KIP-848 the broker matches the names and gives out topic ids, which the
client then looks up by Metadata.
"""

from contextlib import ExitStack

import pytest

from tests.support.interop.members import GROUP_CLIENTS, GroupClient
from tests.support.interop.members.group import fill, received, values
from tests.support.interop.members.state import AssignmentKind, MemberSetup
from tests.support.waiting import wait_until
from tests.system.clients.conftest import create_topic, fresh_name

TAKES_PATTERNS = ("Java client", "Java client 4.4", "confluent-kafka")
CAPABILITIES = {
    AssignmentKind.RANGE: "group, pattern of topics",
    AssignmentKind.CONSUMER: "group, pattern of topics in the consumer protocol",
}


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        pytest.param(
            client, kind, id=f"{client.name}-{kind}",
            marks=pytest.mark.cell(client.name, capability),
        )
        for client in GROUP_CLIENTS
        if client.name in TAKES_PATTERNS
        for kind, capability in CAPABILITIES.items()
    ],
)  # fmt: skip
def test_every_topic_that_matches_is_read(
    bootstrap: str, client: GroupClient, kind: AssignmentKind, leaving: ExitStack
) -> None:
    stem = fresh_name("pattern")
    matching = [create_topic(bootstrap, name=f"{stem}-{each}") for each in ("a", "b")]
    other = create_topic(bootstrap, name=f"other-{stem}-c")
    for topic in (*matching, other):
        fill(bootstrap, topic, 0, partitions=1)
    joining = MemberSetup(
        bootstrap=bootstrap, group=fresh_name("group"), topic=f"^{stem}-.*", kind=kind
    )
    member = client.join(joining)
    leaving.callback(member.leave)
    expected = sorted(text for topic in matching for text in values(topic, 0, [0]))
    wait_until(lambda: received([member]) == expected, seconds=40)
    assert not member.state().error

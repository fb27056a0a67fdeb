"""Groups of both kinds, and the ways between them, with members that say anything at all."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.groups.classic.group import ClassicGroup
from headwater.groups.consumer.consumer_protocol import write_assignment
from headwater.groups.consumer.group import ConsumerGroup
from headwater.groups.requests import JoinReply, LeavingMember
from tests.support.groups.consumer_mixed import MixedWorld, subscription

NUMBERS = st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 3), max_size=5)
VERSIONS = st.integers(-2, 5)
PARTITIONS = st.dictionaries(st.sampled_from(["t", "u", "gone"]), NUMBERS.map(tuple), max_size=3)


@st.composite
def altered(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes with another version, some bytes changed, and an end that is cut or added."""
    data = bytearray(draw(whole))
    data[:2] = draw(VERSIONS).to_bytes(2, "big", signed=True)
    for position, value in draw(
        st.lists(st.tuples(st.integers(2, 60), st.sampled_from([0, 1, 2, 127, 128, 255])))
    ):
        if position < len(data):
            data[position] = value
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


SUBSCRIPTIONS = altered(
    st.builds(subscription, st.lists(st.sampled_from(["t", "u", "gone"])), PARTITIONS)
)
ASSIGNMENTS = altered(st.builds(write_assignment, PARTITIONS, st.just(b"\0\1")))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "sync", "new", "beat", "leave", "leave new", "restart", "time"]),
        st.integers(0, 2),
        SUBSCRIPTIONS | st.binary(max_size=40),
        st.lists(ASSIGNMENTS | st.binary(max_size=40), min_size=3, max_size=3),
    ),
    min_size=3,
    max_size=12,
)


@given(STEPS)
@settings(max_examples=100)
def test_arbitrary_bytes_of_a_member_do_not_break_a_group(
    steps: list[tuple[str, int, bytes, list[bytes]]],
) -> None:
    world = MixedWorld(t=3, u=2)
    ids: list[str] = []
    for what, number, metadata, assignments in steps:
        known = ids[number % len(ids)] if ids else ""
        generation = world.machine.generation if isinstance(world.machine, ClassicGroup) else 1
        match what:
            case "join":
                ticket = world.join_classic(instance=f"i{number}", metadata=metadata)
                world.pass_time(3)
                reply = world.answers.get(ticket)
                if isinstance(reply, JoinReply) and not reply.error:
                    ids.append(reply.member_id)
            case "sync":
                given = dict(zip(ids, assignments, strict=False))
                world.send_sync(known, generation, given)
            case "new":
                world.join(f"new{number}", ("t", "u"))
            case "beat":
                world.beat(f"new{number}", number)
                world.beat_classic(known, generation)
            case "leave":
                world.leave_classic(LeavingMember(known, None))
            case "leave new":
                world.leave(f"new{number}")
            case "restart":
                if world.records:
                    world.restart()
            case "time":
                world.pass_time(20)
        if isinstance(world.machine, ConsumerGroup):
            world.machine.describe(world.topics)
        else:
            world.machine.describe()
        world.machine.subscribed_to("t")

"""Consumer groups: topics that come and go, patterns, assignors."""

from tests.support.groups.consumer_world import ConsumerGroupWorld, settle


def test_new_partitions_raise_the_group_epoch_and_are_assigned() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    world.topics.put("t", 2)
    reply = world.beat("a", 1)
    assert (reply.epoch, reply.assignment) == (2, world.partitions("t", 0, 1))


def test_topic_that_is_created_after_its_subscription_is_assigned() -> None:
    world = ConsumerGroupWorld()
    assert world.join("a", ["late"]).assignment == {}
    world.topics.put("late", 1)
    assert world.beat("a", 1).assignment == world.partitions("late", 0)


def test_deleted_topic_is_revoked() -> None:
    world = ConsumerGroupWorld(t=1, u=1)
    world.join("a", ["t", "u"])
    world.topics.delete("u")
    assert world.beat("a", 1).assignment == world.partitions("t", 0)


def test_other_topics_change_nothing() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    world.topics.put("other", 4)
    assert world.beat("a", 1).epoch == 1
    assert world.last.records == {}


def test_topics_that_changed_between_two_coordinators_are_detected() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    world.topics.put("t", 2)
    world.restart()
    assert world.beat("a", 1).assignment == world.partitions("t", 0, 1)


def test_changed_subscription_raises_the_group_epoch() -> None:
    world = ConsumerGroupWorld(t=1, u=1)
    world.join("a", ["t"])
    world.beat("a", 1, names=["u"])
    assert world.group.describe(world.topics).epoch == 2
    assert settle(world) == {"a": world.partitions("u", 0)}
    assert world.group.subscribed_to("u")
    assert not world.group.subscribed_to("t")


def test_pattern_is_resolved_against_whole_names() -> None:
    world = ConsumerGroupWorld(logs_a=1, logs_b=1, my_logs_c=1)
    reply = world.join("a", None, regex="logs_.*")
    assert reply.assignment == world.partitions("logs_a", 0) | world.partitions("logs_b", 0)
    assert world.group.subscribed_to("logs_b")
    assert not world.group.subscribed_to("my_logs_c")


def test_pattern_matches_topics_that_are_created_later() -> None:
    world = ConsumerGroupWorld(logs_a=1)
    world.join("a", None, regex="logs_.*")
    world.topics.put("logs_b", 1)
    reply = world.beat("a", 1)
    assert reply.epoch == 2
    assert reply.assignment == world.partitions("logs_a", 0) | world.partitions("logs_b", 0)


def test_pattern_without_members_is_forgotten() -> None:
    world = ConsumerGroupWorld(logs_a=1, t=1)
    world.join("a", None, regex="logs_.*")
    assert any(name.startswith("consumer/regex/") for name in world.records)
    world.beat("a", 1, regex="", names=["t"])
    assert not any(name.startswith("consumer/regex/") for name in world.records)
    assert not world.group.subscribed_to("logs_a")


def test_names_and_pattern_add_up() -> None:
    world = ConsumerGroupWorld(t=1, logs_a=1)
    reply = world.join("a", ["t"], regex="logs_.*")
    assert reply.assignment == world.partitions("t", 0) | world.partitions("logs_a", 0)


def test_member_without_subscription_is_a_member_without_partitions() -> None:
    world = ConsumerGroupWorld(t=1)
    reply = world.join("a", [])
    assert (reply.epoch, reply.assignment) == (1, {})
    assert world.group.state == "Stable"


def test_assignor_is_the_one_that_most_members_request() -> None:
    world = ConsumerGroupWorld(t=1)
    world.join("a")
    assert world.group.describe(world.topics).assignor == "uniform"
    world.join("b", assignor="range")
    assert world.group.describe(world.topics).assignor == "range"


# Static members

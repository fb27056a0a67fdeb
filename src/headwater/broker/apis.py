"""Every API that is served, by its key."""

from collections.abc import Mapping
from typing import Final

from headwater.broker.dispatch import Api, api_table
from headwater.broker.handlers import (
    alter_configs,
    api_versions,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

APIS: Final[Mapping[int, Api]] = api_table(
    module.API
    for module in (
        alter_configs,
        api_versions,
        create_partitions,
        create_topics,
        delete_records,
        delete_topics,
        describe_cluster,
        describe_configs,
        describe_topic_partitions,
        fetch,
        find_coordinator,
        incremental_alter_configs,
        init_producer_id,
        list_offsets,
        metadata,
        offset_for_leader_epoch,
        produce,
    )
)

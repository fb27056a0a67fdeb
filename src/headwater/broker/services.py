"""What every handler gets: the broker's ``Services``, and a request's ``RequestContext``."""

from concurrent.futures import Executor
from dataclasses import dataclass, field

from msgspec import Struct

from headwater.broker.authorizer import AllowAll, Authorizer
from headwater.broker.cluster.view import ClusterView
from headwater.broker.configs.dynamic_state import DynamicState
from headwater.broker.network.client_session import ClientSession
from headwater.broker.records.fetch_sessions import FetchSessions
from headwater.broker.records.record_checks import RecordChecks
from headwater.broker.records.topic_rules import TopicRulesCache
from headwater.broker.settings import BrokerSettings
from headwater.broker.topics.access import TopicAccess
from headwater.clock import Clock
from headwater.engine import Backpressure, Engine, ProducerIds
from headwater.groups.service import GroupService
from headwater.groups.settings import GroupSettings
from headwater.log.record_work import RecordWork
from headwater.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """One per broker process.

    ``engine`` and ``backpressure`` are two interfaces of one storage engine. ``executor`` runs
    blocking work; None means the loop's default executor.
    """

    engine: Engine
    backpressure: Backpressure
    producer_ids: ProducerIds
    dynamic: DynamicState
    groups: GroupService
    cluster: ClusterView
    settings: BrokerSettings
    group_settings: GroupSettings = field(default_factory=GroupSettings)
    clock: Clock
    fetch_sessions: FetchSessions
    metrics: Metrics = field(default_factory=Metrics)
    records: RecordChecks = field(default_factory=lambda: RecordChecks(RecordWork()))
    topic_rules: TopicRulesCache = field(default_factory=TopicRulesCache)
    executor: Executor | None = None
    authorizer: Authorizer = field(default_factory=AllowAll)
    topics: TopicAccess = field(init=False)
    """Finds the engine's topics and checks the client's right to use them."""

    def __post_init__(self) -> None:
        access = TopicAccess(self.engine.topics, self.authorizer)
        object.__setattr__(self, "topics", access)


class RequestContext(Struct, frozen=True):
    """What a handler may need to know about a request besides its body."""

    version: int
    client_id: str | None
    session: ClientSession

"""Spark SQL over topics. Each topic in a query is a view that includes its newest records."""

import contextlib
import io
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.errors import ConfigurationError, HeadwaterError, StoreUnavailable
from headwater.pipeline.metadata_reads import read_topics
from headwater.pipeline.source.metadata import opened
from headwater.pipeline.source.ranges import unknown_topic

_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    # ``used_columns`` parses the plan as text, which must not be truncated.
    "spark.sql.debug.maxToStringFields": "10000",
}

_LISTING: Final = re.compile(r"\s*SHOW\s+(TABLES|VIEWS)\b", re.IGNORECASE)
"""Queries about all topics."""
_CHANGE: Final = re.compile(
    r"\s*(INSERT|UPDATE|DELETE|MERGE|CREATE|REPLACE|DROP|ALTER|TRUNCATE|LOAD)\b", re.IGNORECASE
)
_RELATION: Final = re.compile(r"RelationV2\[([^]]*)\] headwater")
_ATTRIBUTE: Final = re.compile(r"(\w+)#(\d+)")


@dataclass(frozen=True, slots=True)
class SqlStores:
    """The URLs of a cluster's stores."""

    metadata_url: str
    objects_url: str


def topic_names(place: SqlStores) -> list[str]:
    """The names of all topics. Raises ``ConfigurationError`` if there is no cluster."""
    with opened(place.metadata_url) as store:
        return sorted(topic.name for topic in store.run(read_topics(store.meta, ())))


def run_query(session: Any, query: str, place: SqlStores, topics: Sequence[str]) -> Any:
    """Run a query; returns a ``pyarrow.Table``.

    Raises ``UnknownTopicOrPartition``, ``ConfigurationError`` for an invalid query, or
    ``StoreUnavailable`` if the query fails.
    """
    check_reads(query)
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    from headwater.pipeline.source.data_source import HeadwaterDataSource

    # It prints the stack trace of errors that are reported in one line here.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    session.dataSource.register(HeadwaterDataSource)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    try:
        return _planned(session, query, place, topics).toArrow()
    except (AnalysisException, ParseException) as error:
        raise _refusal(error, query, topics) from error
    except (PySparkException, Py4JError) as error:
        raise StoreUnavailable(f"the query failed: {last_line(str(error))}") from error


def check_reads(query: str) -> None:
    """Raises ``ConfigurationError`` for a statement that changes data.

    >>> check_reads("SELECT 'INSERT' FROM orders")
    """
    if (change := _CHANGE.match(query)) is not None:
        raise ConfigurationError(
            f"headwater sql only reads topics and cannot run {change[1].upper()}; "
            "write records with a Kafka client, such as headwater produce"
        )


def _planned(session: Any, query: str, place: SqlStores, topics: Sequence[str]) -> Any:
    """The DataFrame of a query. Each topic reads only the columns that the query uses, if known."""
    if _LISTING.match(query):
        nothing = session.range(0)
        for topic in topics:
            nothing.createOrReplaceTempView(f"`{topic}`")
        return session.sql(query)
    named = [topic for topic in topics if topic in query]
    for topic in named:
        _create_view(session, topic, place)
    frame = session.sql(query)
    columns = used_columns(optimized_plan(frame), frame.columns)
    if columns is None:
        return frame
    from pyspark.errors import AnalysisException

    try:
        for topic in named:
            _create_view(session, topic, place, columns)
        return session.sql(query)
    except AnalysisException:
        # The query names a column that its plan does not use: SELECT * EXCEPT (value).
        for topic in named:
            _create_view(session, topic, place)
        return session.sql(query)


def _create_view(
    session: Any, topic: str, place: SqlStores, columns: Sequence[str] | None = None
) -> None:
    reader = session.read.format("headwater").options(
        metadata=place.metadata_url, objects=place.objects_url, topic=topic
    )
    if columns is not None:
        from headwater.pipeline.source.data_source import schema_of

        # One query reads this view once, so its filters may be pushed down.
        reader = reader.options(pushFilters="true").schema(schema_of(columns))
    reader.load().createOrReplaceTempView(f"`{topic}`")


def optimized_plan(frame: Any) -> str:
    """The optimized plan as text; works with a local JVM and with Spark Connect."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(extended=True)
    _, _, plan = printed.getvalue().partition("== Optimized Logical Plan ==")
    return plan.partition("== Physical Plan ==")[0]


def used_columns(plan: str, output: Sequence[str]) -> list[str] | None:
    r"""The columns that a plan uses of its topic; None if it reads several, or one twice.

    ``output`` are the columns of the result, because a plan without a projection does not name
    them. Columns of the topic with these names count as used.

    >>> plan = "Project [value#4]\n+- Filter (offset#2L > 5)\n   +- "
    >>> relation = "RelationV2[topic#0, partition#1, offset#2L, timestamp#3, value#4] headwater"
    >>> used_columns(plan + relation, ["value"])
    ['offset', 'value']
    >>> used_columns(relation, ["topic", "value"])
    ['topic', 'value']
    >>> used_columns(relation + relation, ["topic"])
    """
    relations = _RELATION.findall(plan)
    if len(relations) != 1:
        return None
    elsewhere = {number for _, number in _ATTRIBUTE.findall(_RELATION.sub("", plan))}
    found = _ATTRIBUTE.findall(relations[0])
    # At least one column is needed to count rows.
    used = [name for name, number in found if number in elsewhere or name in output]
    return used or ["offset"]


def _refusal(error: Any, query: str, topics: Sequence[str]) -> HeadwaterError:
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        name = error.getMessageParameters()["relationName"].strip("`").replace("`.`", ".")
        if name not in topics:
            return unknown_topic(name, topics)
    for topic in topics:
        # Such as page-views, which SQL parses as a subtraction.
        if not topic.isidentifier() and re.search(rf"(?<![`\w.-]){re.escape(topic)}", query):
            return ConfigurationError(f"topic {topic} must be quoted in SQL: write `{topic}`")
    return ConfigurationError(last_line(str(error)))


def last_line(text: str) -> str:
    r"""The message of a Spark error without its stack trace, plan and error class.

    >>> last_line("[PARSE_SYNTAX_ERROR] Syntax error at or near 'x'. SQLSTATE: 42601 (line 1)")
    "Syntax error at or near 'x'."
    >>> last_line("Traceback:\n  File\nheadwater.errors.CorruptMessage: bad batch\n\nat org.x")
    'bad batch'
    """
    own = re.findall(r"^(?:headwater\.[\w.]+|[\w.]*DamagedChunk): (.+)$", text, re.MULTILINE)
    line = own[-1] if own else next(iter(text.strip().splitlines()), "")
    line = re.sub(r"^\[[A-Z_.]+\] ", "", line)
    return re.sub(r"\s*SQLSTATE: \w+.*$", "", line)[:300]

"""The process's own log: one JSON object per line, or readable lines on a terminal.

Modules log through the standard library with a constant message and their values in ``extra``:

    logger.info("Flushed", extra={"bytes": 1024, "object": key})

so that a line can be searched by its message and by each value. An error goes in as it is:
``extra={"error": error}``. The standard library refuses the names of a record's own attributes
(``name``, ``module``, ``message``, ``process`` and so on) in ``extra``.
"""

import json
import logging
import math
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

LogFormat = Literal["auto", "json", "text"]

_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31;1"}
_PLAIN = re.compile(r'[^\s"=]+')
"""What a value on a terminal looks like that needs no quotes."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(
    log_format: LogFormat = "auto", level: str = "info", stream: TextIO | None = None
) -> None:
    """Send every logger's lines to ``stream`` (stderr); replaces what was set before."""
    out = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(out)
    if log_format == "json" or (log_format == "auto" and not out.isatty()):
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter(colour=out.isatty()))
    handler.addFilter(Repeats())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Repeats(logging.Filter):
    """Drops a warning or error that was logged with the same values in the last ten seconds.

    Otherwise operations that are retried, on a full disk or an unreachable store, would fill the
    log. A line about a client passes once a minute for each address: a misconfigured client comes
    back many times a second, each time from another port. ``repeated`` in the next such line counts
    the lines dropped since the last one.
    """

    SECONDS: Final = 10.0
    PEER_SECONDS: Final = 60.0
    MAX_REMEMBERED: Final = 256

    def __init__(self) -> None:
        super().__init__()
        # Any thread may log, and a destructor in the middle of a log call. Each operation on a dict
        # is atomic. cachetools is not, and a lock would not help if a destructor logs.
        self._seen: OrderedDict[tuple[str, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        values = dict(_values(record))
        pause = self.SECONDS
        if isinstance(peer := values.get("peer"), str):
            values["peer"], pause = peer.rpartition(":")[0], self.PEER_SECONDS
        key = (record.name, record.getMessage(), *(f"{k}={v}" for k, v in values.items()))
        since, repeated = self._seen.pop(key, (-math.inf, 0))
        passes = record.created >= since + pause
        self._seen[key] = (record.created, 0) if passes else (since, repeated + 1)
        if len(self._seen) > self.MAX_REMEMBERED:
            self._seen.popitem(last=False)
        if not passes:
            return False
        if repeated:
            record.repeated = repeated
        return True


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message, the values, and a traceback if any.

    A value with the name of one of the first four gets the prefix ``extra_``.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in _values(record):
            line[f"extra_{key}" if key in line else key] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=_text)


class TextFormatter(logging.Formatter):
    """One line for people, with colours if asked for; text with spaces is quoted.

    ``12:34:56.789 WARNING log.append  Could not write  object=wal/1.wo  error="disk full"``
    """

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        time = _time(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        name = record.name.removeprefix("headwater.")
        values = "".join(
            f"  {self._paint('2', f'{key}=')}{_shown(value)}" for key, value in _values(record)
        )
        level = self._paint(_COLOURS.get(record.levelname, "0"), f"{record.levelname:<7}")
        line = f"{self._paint('2', time)} {level} {name}  {record.getMessage()}{values}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _values(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """The fields that the caller passed as ``extra``."""
    return ((key, value) for key, value in vars(record).items() if key not in _STANDARD)


def _text(value: object) -> str:
    """The value as text; an error without a text is shown by its name."""
    return str(value) or repr(value)


def _shown(value: object) -> str:
    """The value as ``TextFormatter`` shows it, on one line."""
    text = _text(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)

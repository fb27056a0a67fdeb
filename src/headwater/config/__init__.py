"""Settings, read from a YAML file, the environment and the command line.

Rising priority: the defaults, the file (``--config``), ``HEADWATER_*`` variables, flags. The
setting ``log.flush_bytes`` is ``log: {flush_bytes: ...}`` in the file and
``HEADWATER_LOG_FLUSH_BYTES`` in the environment. An empty variable and a ``null`` in the file
count as not set. Each section is declared in ``settings.py`` of the package that it configures;
``docs/reference/configuration.md`` is generated from these declarations.

``load`` raises ``ConfigurationError`` for an unknown key or a value that is not allowed. The
message names the source of the value, the key, the value, and what is allowed.

- ``settings``: the tree of all sections, and a description of each key
- ``loading``: reading, checking and layering the sources
- ``host_port``: HOST:PORT
"""

from headwater.config.host_port import HostPort
from headwater.config.loading import load
from headwater.config.settings import Key, Settings, keys

__all__ = ["HostPort", "Key", "Settings", "keys", "load"]

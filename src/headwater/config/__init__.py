"""One typed tree of settings, read from a YAML file, the environment and the command line.

Rising priority: the defaults, the file (``--config``), ``HEADWATER_*`` variables, flags.
A key ``flush_bytes`` of section ``log`` is ``log: {flush_bytes: ...}`` in the file and
``HEADWATER_LOG_FLUSH_BYTES`` in the environment, where an empty one counts as not set. Every
key is described where it stands, in a module for each section, and
``docs/reference/configuration.md`` is generated from that.

``load`` raises ``ConfigurationError`` for an unknown key or a value that is not allowed; its
text names where the value came from, the key, the value, and what is allowed.
"""

from headwater.config.address import Address
from headwater.config.layers import load
from headwater.config.tree import Key, Settings, keys

__all__ = ["Address", "Key", "Settings", "keys", "load"]

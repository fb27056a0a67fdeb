"""One HTTP/1.1 server for the pages of a broker: bounded, on aiohttp.

- ``messages``: a request and a reply as values.
- ``mounts``: a mount, which is a set of routes with its own error format.
- ``hosts``: the host names that the server answers to.
- ``limits``: what one client may use.
- ``settings``: the section `http`.
- ``connections``: which connections are open, and which one is closed to make room.
- ``router``: the route that a request asks for.
- ``requests``: a request checked, read from its connection and answered.
- ``protocol``: one connection: its phases, their time limits, and what is not HTTP.
- ``server``: listens and closes.

Only this package imports aiohttp. A mount imports ``messages`` and ``mounts``, which do not, so
that a broker without pages starts without aiohttp; import ``server`` where it is started.
"""

"""A broker process: assembly, start, readiness, workers and signals.

- ``assembly``: ``BrokerProcess`` opens the stores and assembles a broker
- ``storage_engine``: the log, from the settings
- ``object_store``: opening, probing and waiting for the object store
- ``pages``: the pages that a broker serves over HTTP
- ``workers``: several broker processes under a supervisor
- ``compaction``: compaction as a child process of a broker
- ``signals``: stopping on signals and when the parent ends
"""

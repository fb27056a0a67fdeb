"""The metadata store: a small ordered key-value store with transactions, on several backends.

- ``store``: the interface that every backend implements.
- ``urls``: opens the backend that a URL names.
- ``keys``: the key of everything that is stored, one function per kind of key.
- ``values``: the encoding of values, with format versions.
- ``transactions``: transactions that are retried until their outcome is known.
- ``scan``: reads long ranges page by page.
- ``mirror``: keeps the values under one prefix in memory, up to date.
- ``limits``: checks a transaction against the limits of its store.
- ``sessions``: a session that its own process renews, for every backend.
- ``renewal_thread``: the event loop on which sessions are renewed.
- ``feed``: watches, for backends that store a table of changes.
- ``grpc_channels``: connections and errors of the backends that speak gRPC.
- ``store_thread``: a store for code without an event loop.
- ``memory``: the backend in memory, for tests and simulation.
- ``sqlite``, ``etcd``, ``postgres``, ``oxia``: the backends that keep their data.

Only a backend's own folder imports that backend's client library.
"""

"""The built-in Iceberg REST catalog: one URL at which every engine finds the tables.

- ``service``: the mount; runs each request in a thread.
- ``routes``: the routes of the specification, and the names in a path and a query.
- ``operations``: what each route does.
- ``namespaces``, ``tables``, ``commits``: the operations by what they change.
- ``guard``: what a client may change, and at which locations.
- ``purge``: deletes the files of a dropped table.
- ``vending``: what an engine needs to reach the files of a table.
- ``models``: bodies of requests.
- ``pages``: lists in pages.
- ``errors``: errors, and their replies.
"""

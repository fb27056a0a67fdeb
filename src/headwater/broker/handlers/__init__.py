"""The Kafka APIs: one module per API, named after it.

Each module's docstring lists the versions served, the behaviour, and what is left out. ``API``
registers the handler: ``headwater.broker.apis`` finds all modules of this package.
"""

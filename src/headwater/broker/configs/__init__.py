"""Configurations of topics, brokers, groups and loggers, as Kafka's tools read and change them.

- ``entries``: one configuration with value, source and synonyms.
- ``broker_entries``: the configurations of this broker and of all brokers.
- ``dynamic_configs``: the broker configurations that can be changed at run time.
- ``changes``: AlterConfigs and IncrementalAlterConfigs.
- ``loggers``: the levels of loggers.
- ``store``: dynamic broker configurations in the metadata store.
- ``dynamic_state``: everything that administrators change at run time.
"""

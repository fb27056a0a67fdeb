"""Topic configurations.

- ``topic``: names, defaults and checks of all topic configurations
- ``table``: rules for those about tables
- ``values``: checks of values
- ``stored``: their records in the metadata store
"""

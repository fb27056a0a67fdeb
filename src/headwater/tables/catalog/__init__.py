"""The Iceberg catalog.

- ``catalogs``: opening the catalog that the settings name
- ``metadata_catalog``: the catalog in the cluster's metadata store
- ``pointers``: its keys and transactions
- ``recovery``: its recovery after a restore
- ``metadata_files``: metadata files of a table without a catalog
- ``catalog_file``: migration of the SQLite file of earlier versions
- ``errors``: mapping of errors
"""

"""The object stores in buckets, which obstore connects to.

- ``store``: the ``ObjectStore`` over a bucket.
- ``s3``: opens a bucket of S3 or of a compatible server.
- ``gcs``: opens a bucket of Google Cloud Storage.
- ``azure``: opens a container of Azure Blob Storage.
- ``bucket_urls``: the parts that the URLs of all buckets share.
- ``errors``: translates obstore's errors.
"""

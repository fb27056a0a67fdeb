"""The object store in a directory.

- ``store``: the ``ObjectStore``.
- ``durable_directories``: creates directories whose entries survive a power failure.
- ``temporary_files``: files that are being written and are not objects yet.
- ``growing_file``: an object that grows by appends.
- ``vectored_write``: writes several buffers to a file without joining them.
- ``disk_errors``: translates the operating system's errors.
"""

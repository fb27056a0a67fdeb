"""Snapshots of the metadata, and bringing a cluster back from the object store.

- ``snapshots``: takes snapshots of the metadata store.
- ``claim``: marks whose objects these are, and refuses others.
- ``bookmarks``: notices a metadata store that went back to an earlier state.
- ``restore``: restores a cluster from a snapshot and newer objects.
- ``recovery``: finds records that are newer than a snapshot.
- ``surviving_files``: reads the files of jobs that are newer than a snapshot.
- ``placement``: where the records of a stream go: pure functions.
- ``rebuild``: finds a place for all that survived.
- ``restored``: the keys of the restored cluster.
"""

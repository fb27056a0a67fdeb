"""Kafka's requests and responses, on the schema that kio generates.

- ``api_versions``: the APIs and versions that are served.
- ``requests``: from a frame's bytes to a request.
- ``request_guard``: checks the lengths and counts in a request before anything is built from them.
- ``guarded_reader``: the only access to kio's native reader.
- ``produce_request``: reads Produce without copying records.
- ``replies``: encodes Produce, Fetch and Metadata from plain tuples.
- ``encoder``: encodes every other response.
- ``encoder_compiler``: compiles an encoder for each message version.
- ``encoder_forms``: the forms in which a response's values may be given.
- ``schema``: kio's dataclasses in the shape that compilers need.
- ``source``: Python source text, written line by line.
"""

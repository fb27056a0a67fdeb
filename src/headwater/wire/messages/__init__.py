"""Requests and responses.

- ``api_versions``: the served APIs and their versions
- ``requests``: parsing of requests
- ``produce_request``: parsing of Produce requests
- ``request_guard``: validation of bytes before kio parses them
- ``guarded_reader``: kio's reader behind this validation
- ``replies``: responses of the hot path
- ``encoder``: encoding of responses
- ``encoder_compiler``: compiles an encoder from a schema
- ``encoder_forms``: access to the values of a response
- ``schema``: Kafka's message schema from kio
- ``source``: generated Python source
"""

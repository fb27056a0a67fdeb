"""The Kafka server: sockets, sessions, and the order of requests and replies.

- ``server``: accepts, counts, limits and closes connections.
- ``listener``: a listening socket with the address that it advertises.
- ``acceptor``: accepts from one listening socket while the limits allow it.
- ``connection_limits``: the limits of connections, in total and by address.
- ``client_session``: listener, principal, expiry and size limit of one connection.
- ``client_socket``: the socket side of a connection: reads, pauses, idle time and closing.
- ``connection``: the request side of a connection: order, dispatch and replies.
- ``receive_buffer``: bytes to frames.
- ``backlog``: the requests of one connection that are not answered yet.
- ``pending_request``: one such request.
- ``dispatch``: ``Api``, which a handler module registers.
- ``replies``: the forms of a reply, and its encoding.
- ``error_replies``: the error reply for any request.
- ``backpressure``: stops reading while the engine's write buffers are full.
- ``read_coalescing``: reads the sockets of waiting producers together.
"""

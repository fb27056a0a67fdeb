"""A client in its own process that pings a broker and reports the slowest reply.

``python -m tests.system.hostile.probe PORT`` prints ``ready`` after its first reply. For each line
of its standard input it then prints the seconds of the slowest ping since the line before.
"""

import select
import socket
import struct
import sys
import time

from headwater.wire.messages.api_versions import ApiKey

PAUSE = 0.02
PATIENCE = 30.0


def main(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        ping(connection)
        print("ready", flush=True)  # noqa: T201 - its protocol with the test
        while True:
            slowest = ping(connection)
            while not select.select([sys.stdin], [], [], PAUSE)[0]:
                slowest = max(slowest, ping(connection))
            if not sys.stdin.readline():
                return
            print(slowest, flush=True)  # noqa: T201


def ping(connection: socket.socket) -> float:
    """The seconds that one ApiVersions request takes."""
    body = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, -1)
    began = time.perf_counter()
    connection.sendall(struct.pack(">i", len(body)) + body)
    (length,) = struct.unpack(">i", read(connection, 4))
    read(connection, length)
    return time.perf_counter() - began


def read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise ConnectionError("the broker closed the probe's connection")
        data += piece
    return data


if __name__ == "__main__":
    main(int(sys.argv[1]))

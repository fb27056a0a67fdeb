"""A server that ends and starts again where its clients know it."""

from pathlib import Path

from peers.process import Server, free_port
from tests.support.interop.servers import start_server


class Restartable:
    """One server over one folder and one port, ended and started again at will."""

    def __init__(self, data: Path) -> None:
        self.data, self.port = data, free_port()
        self.server: Server = start_server(data, port=self.port)

    def restart(self, *, kill: bool) -> str:
        if kill:
            self.server.kill()
        else:
            self.server.stop()
        self.server = start_server(self.data, port=self.port)
        return self.server.bootstrap

    def close(self) -> None:
        self.server.stop()

"""``python -m peers``: install the peers, run Apache Kafka in the foreground, or one of its tools.

python -m peers install [NAME...]
python -m peers kafka DATA [PORT]
python -m peers tool TopicCommand --bootstrap-server 127.0.0.1:9092 --list
"""

import sys
from pathlib import Path

from peers import kafka
from peers.install import InstallError
from peers.installed import INSTALL


def main(words: list[str]) -> int:
    match words:
        case ["install", *names]:
            for name in names or INSTALL:
                INSTALL[name]()
            return 0
        case ["kafka", data, *port]:
            server = kafka.start_kafka(Path(data), port=int(port[0]) if port else None)
            sys.stdout.write(f"{server.bootstrap} pid {server.pid}\n")
            try:
                return server.process.wait()
            except KeyboardInterrupt:
                server.stop()
                return 0
        case ["tool", name, *arguments]:
            done = kafka.run_tool(name, *arguments, check=False, limit=3600)
            sys.stdout.buffer.write(done.stdout)
            sys.stderr.buffer.write(done.stderr)
            return done.returncode
        case _:
            sys.stderr.write(__doc__ or "")
            return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InstallError as missing:
        sys.exit(str(missing))

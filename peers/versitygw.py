"""versitygw 1.8: an S3 server over a directory, strict and atomic in its conditional puts."""

from pathlib import Path

from peers.go_tool import go_program
from peers.process import free_port
from peers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server


def install() -> Path:
    """The program, built with Go the first time."""
    return go_program(
        "versitygw",
        module="github.com/versity/versitygw",
        version="v1.8.0",
        package="github.com/versity/versitygw/cmd/versitygw",
    )


def start_versitygw(data: Path, *, port: int | None = None) -> S3Server:
    """A server whose buckets are the folders of ``data``."""
    port = port or free_port()
    data.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [
        install(), "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION,
        "--port", f"127.0.0.1:{port}", "--quiet", "posix", data,
    ]  # fmt: skip
    return S3Server(command=command, ports=[port], log=data.with_name(f"{data.name}.log"))

"""versitygw 1.8: an S3 server over a directory, strict and atomic in its conditional puts."""

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a server's certificate and its key."""

    certificate: Path
    key: Path


def start_versitygw(
    data: Path,
    *,
    port: int | None = None,
    tls: Certificate | None = None,
    domain: str | None = None,
) -> S3Server:
    """A server whose buckets are the folders of ``data``.

    With ``domain``, buckets are host names below it; with ``tls``, it speaks HTTPS.
    """
    port = port or free_port()
    data.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [
        install(), "--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION,
        "--port", f"127.0.0.1:{port}", "--quiet",
    ]  # fmt: skip
    if tls is not None:
        command += ["--cert", tls.certificate, "--key", tls.key]
    if domain is not None:
        command += ["--virtual-domain", domain]
    return S3Server(
        command=[*command, "posix", data],
        ports=[port],
        log=data.with_name(f"{data.name}.log"),
        scheme="http" if tls is None else "https",
    )

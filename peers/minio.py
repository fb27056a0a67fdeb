"""MinIO, the last of its public versions: the S3 server that many users run themselves."""

from pathlib import Path

from peers.go_tool import go_program
from peers.process import free_port
from peers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server


def install() -> Path:
    """The program, built with Go the first time, in about five minutes."""
    return go_program(
        "minio",
        module="github.com/minio/minio",
        version="v0.0.0-20260212201848-7aac2a2c5b7c",
        package="github.com/minio/minio",
    )


def start_minio(data: Path, *, port: int | None = None) -> S3Server:
    """A server over the one directory ``data``."""
    port = port or free_port()
    data.mkdir(parents=True, exist_ok=True)
    return S3Server(
        command=[install(), "server", "--quiet", "--address", f"127.0.0.1:{port}", data],
        ports=[port],
        log=data.with_name(f"{data.name}.log"),
        environment={
            "MINIO_ROOT_USER": ACCESS_KEY,
            "MINIO_ROOT_PASSWORD": SECRET_KEY,
            "MINIO_REGION": REGION,
            "MINIO_UPDATE": "off",
            "MINIO_BROWSER": "off",
        },
        health="/minio/health/cluster",
    )

"""Apache Iceberg 1.11's own REST catalog, from Maven jars, over SQLite and S3 or a directory."""

from dataclasses import dataclass
from pathlib import Path

from peers.install import maven_jars, require_command
from peers.process import free_port
from peers.s3_server import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from peers.service import Service

HERE = Path(__file__).parent
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"


@dataclass(slots=True, kw_only=True)
class IcebergRest(Service):
    """A running catalog. It listens on every interface: the server has no option for that."""

    @property
    def url(self) -> str:
        """The catalog's ``uri``."""
        return f"http://{self.address}"


def install() -> Path:
    """The folder of the server's jars, fetched with Maven the first time."""
    require_command("java", "default-jre-headless")
    return maven_jars("iceberg-lib", HERE / "pom.xml")


def start_iceberg_rest(
    data: Path, *, warehouse: str, s3: S3Server | None = None, port: int | None = None
) -> IcebergRest:
    """A catalog whose tables lie below ``warehouse``: ``s3://bucket/…`` of ``s3``, or ``file:/…``.

    What the catalog itself knows is kept in ``data``.
    """
    port = port or free_port()
    data.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [
        require_command("java", "default-jre-headless"), "-Xmx512m", "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{install()}/*", MAIN,
    ]  # fmt: skip
    return IcebergRest(
        command=command,
        ports=[port],
        log=data / "rest.log",
        environment={
            "CATALOG_REST_PORT": str(port),
            "CATALOG_URI": f"jdbc:sqlite:{data / 'catalog.db'}",
            "CATALOG_JDBC_USER": "user",
            "CATALOG_JDBC_PASSWORD": "password",
            "CATALOG_WAREHOUSE": warehouse,
            **(_file_io(s3) if s3 else {}),
        },
        health="/v1/config",
    )


def _file_io(s3: S3Server) -> dict[str, str]:
    return {
        "AWS_REGION": REGION,
        "CATALOG_CLIENT_REGION": REGION,
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": s3.endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": ACCESS_KEY,
        "CATALOG_S3_SECRET__ACCESS__KEY": SECRET_KEY,
    }

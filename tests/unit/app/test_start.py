"""What a broker logs when it has started."""

from headwater.app.assembly import start_fields
from headwater.config import HostPort, Settings


def test_a_start_names_the_cluster_and_the_stores_without_passwords() -> None:
    settings = Settings(metadata="postgres://me:secret@db/streams", objects="s3://bucket/prefix")
    listening, advertised = HostPort("0.0.0.0", 9092), HostPort("broker-1", 9092)
    fields = start_fields(settings, "M9W251pEp2-tjlMCs9sd0w", listening, advertised)
    assert fields["cluster"] == "M9W251pEp2-tjlMCs9sd0w"
    assert (fields["listen"], fields["advertised"]) == ("0.0.0.0:9092", "broker-1:9092")
    assert (fields["metadata"], fields["objects"]) == (
        "postgres://me@db/streams",
        "s3://bucket/prefix",
    )
    assert fields["version"]

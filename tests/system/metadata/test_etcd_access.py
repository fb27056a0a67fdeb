"""Who gets into etcd: users with passwords, certificates of both sides."""

import asyncio
import base64
import json
import urllib.request
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from headwater.clock import SystemClock
from headwater.errors import StoreUnavailable
from headwater.meta.etcd.compactor import EtcdCompactor
from headwater.meta.urls import open_store
from peers.etcd import Etcd, start_etcd
from tests.support.meta.conformance import bind, put, take
from tests.support.metadata_servers.etcd import opened


def ask(server: Etcd, path: str, **body: object) -> None:
    """One request to etcd's own interface over HTTP."""
    request = urllib.request.Request(
        f"http://{server.address}/v3/auth/{path}", data=json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=10):
        pass


def protect(server: Etcd, prefix: str) -> None:
    """Let one user at one prefix, and only with its password."""

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    ask(server, "role/add", name="broker")
    permission = {
        "permType": "READWRITE",
        "key": encoded(prefix),
        "range_end": encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1)),
    }
    ask(server, "role/grant", name="broker", perm=permission)
    for user, password, role in (("root", "root", "root"), ("me", "s@cret", "broker")):
        ask(server, "user/add", name=user, password=password)
        ask(server, "user/grant", user=user, role=role)
    ask(server, "enable")


async def test_a_user_gets_in_with_its_password_and_stays_when_its_token_ends(
    tmp_path: Path,
) -> None:
    plain = start_etcd(tmp_path / "data")
    plain.stop()
    server = Etcd(
        command=[*plain.command, "--auth-token-ttl", "1"],
        ports=plain.ports,
        log=plain.log,
        health=plain.health,
    )
    try:
        await asyncio.to_thread(protect, server, "own")
        for user in ("", "me:wrong@", "stranger:x@"):
            with pytest.raises(StoreUnavailable, match="etcdserver: "):
                await open_store(f"etcd://{user}{server.address}/own", SystemClock())
        with pytest.raises(StoreUnavailable, match="permission denied"):
            await open_store(f"etcd://me:s%40cret@{server.address}/theirs", SystemClock())
        async with opened(f"etcd://me:s%40cret@{server.address}/own") as store:
            session = await store.session(ttl=2)
            revision = (await bind(store, session, "e/a")).revision
            watch = store.watch("w/", revision)
            for number in range(4):
                await asyncio.sleep(1.2)
                await put(store, **{f"w/{number}": b""})
            assert len(await take(watch, 4)) == 4
            assert not session.lost
            assert await store.get("e/a") is not None
            await session.close()
            await EtcdCompactor(store._members, "own").compact_once()  # type: ignore[attr-defined]
    finally:
        server.stop()


def certificates(directory: Path) -> None:
    """An authority, and a certificate of it for this host, which is also a client's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("ca", "own")}
    names = {name: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in keys}
    now = datetime.now(UTC)
    for name, key in keys.items():
        built = x509.CertificateBuilder(
            issuer_name=names["ca"],
            subject_name=names[name],
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(hours=1),
        )
        host = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
        built = built.add_extension(x509.BasicConstraints(name == "ca", None), critical=True)
        made = built.add_extension(host, critical=False).sign(keys["ca"], hashes.SHA256())
        (directory / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        (directory / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )


async def test_tls_asks_for_the_right_certificates_of_both_sides(tmp_path: Path) -> None:
    certificates(tmp_path)
    plain = start_etcd(tmp_path / "data")
    plain.stop()
    server = Etcd(
        command=[
            *(str(word).replace("http://", "https://") for word in plain.command),
            "--cert-file", tmp_path / "own.pem", "--key-file", tmp_path / "own.key",
            "--peer-cert-file", tmp_path / "own.pem", "--peer-key-file", tmp_path / "own.key",
            "--peer-trusted-ca-file", tmp_path / "ca.pem",
            "--trusted-ca-file", tmp_path / "ca.pem", "--client-cert-auth",
        ],
        ports=plain.ports,
        log=plain.log,
    )  # fmt: skip
    try:
        own = f"cert={tmp_path}/own.pem&key={tmp_path}/own.key"
        url = f"etcds://{server.address}/tls"
        async with asyncio.timeout(20):
            while True:
                try:
                    async with opened(f"{url}?ca={tmp_path}/ca.pem&{own}") as store:
                        await put(store, a=b"1")
                        break
                except StoreUnavailable:  # it has no leader yet
                    await asyncio.sleep(0.1)
        for refused in (f"{url}?{own}", f"{url}?ca={tmp_path}/ca.pem", f"etcd{url[5:]}"):
            with pytest.raises(StoreUnavailable):
                await open_store(refused, SystemClock())
    finally:
        server.stop()

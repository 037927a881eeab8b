"""A Ceph cluster of one node on loopback, in memory: a monitor, a store of objects and the gateway that speaks S3.

Debian's packages are enough (`make ceph` installs them). The gateway of Ceph 16 cannot talk to a monitor that asks for
no keys (`get_initial_auth_request returned -13`), so everybody here has one.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.storage.servers import Identity, S3Server, free_ports, is_up, started

_CONFIG = """
[global]
fsid = 0d6a1a4e-6b0f-4d0e-9d5c-6f1f5c1f7c11
mon_host = [v2:127.0.0.1:{v2}]
public_network = 127.0.0.0/8
ms_bind_ipv6 = false
keyring = {folder}/keyring
mon_data = {folder}/mon
osd_data = {folder}/osd
rgw_data = {folder}/rgw
run_dir = {folder}
crash_dir = {folder}
admin_socket =
log_file = {folder}/$name.log
mon_data_avail_crit = 1
mon_allow_pool_size_one = true
osd_objectstore = memstore
memstore_device_bytes = 4294967296
osd_crush_chooseleaf_type = 0
osd_pool_default_size = 1
osd_pool_default_pg_num = 8
rgw_frontends = beast endpoint=127.0.0.1:{s3} tcp_nodelay=1
"""
_KEYS = {
    "mon.": ("mon", "allow *"),
    "client.admin": ("mon", "allow *", "osd", "allow *", "mgr", "allow *"),
    "osd.0": ("mon", "allow profile osd", "osd", "allow *"),
}
_SECONDS = 60


@contextmanager
def ceph(folder: Path, identities: tuple[Identity, ...]) -> Iterator[S3Server]:
    """Serve S3 from a new cluster until the block ends."""
    s3, v2 = free_ports(2)
    for name in ("mon", "osd", "rgw"):
        (folder / name).mkdir()
    (folder / "ceph.conf").write_text(_CONFIG.format(folder=folder, s3=s3, v2=v2))
    _make_keys(folder)
    log = folder / "ceph.log"
    with ExitStack() as stack:
        _run(folder, "monmaptool", "--create", "--addv", "a", f"[v2:127.0.0.1:{v2}]", str(folder / "monmap"))
        _run(folder, "ceph-mon", "--mkfs", "-i", "a", "--monmap", str(folder / "monmap"))
        stack.enter_context(started(["ceph-mon", "-f", "-i", "a", *_conf(folder)], log=log))
        _run(folder, "ceph", "auth", "import", "-i", str(folder / "keyring"))
        _run(folder, "ceph", "osd", "create")
        _run(folder, "ceph-osd", "-i", "0", "--mkfs")
        stack.enter_context(started(["ceph-osd", "-f", "-i", "0", *_conf(folder)], log=log))
        for each in identities:
            _run(folder, "radosgw-admin", "user", "create", f"--uid={each.name}", f"--display-name={each.name}",
                 f"--access-key={each.name}", f"--secret-key={each.secret}")  # fmt: skip
        gateway = stack.enter_context(started(["radosgw", "-f", "-n", "client.admin", *_conf(folder)], log=log))
        if not is_up(f"http://127.0.0.1:{s3}", gateway):
            raise RuntimeError(f"the gateway did not start; {log} says why")
        yield S3Server(endpoint=f"http://127.0.0.1:{s3}")


def _make_keys(folder: Path) -> None:
    for name, rights in _KEYS.items():
        caps = [word for kind, cap in zip(rights[::2], rights[1::2], strict=True) for word in ("--cap", kind, cap)]
        created = [] if (folder / "keyring").exists() else ["--create-keyring"]
        _run(folder, "ceph-authtool", str(folder / "keyring"), *created, "--gen-key", "-n", name, *caps)


def _conf(folder: Path) -> list[str]:
    return ["-c", str(folder / "ceph.conf")]


def _run(folder: Path, *command: str) -> None:
    """Run a tool of Ceph's to its end; what it says is told if it fails."""
    env = {**os.environ, "CEPH_CONF": str(folder / "ceph.conf")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])}: {done.stderr[-1000:]}")

"""Calls to Google Cloud Storage over gcsfs's session, one request each.

gcsfs keeps the credentials, the endpoint and the connections as its users set them (application default credentials,
workload identity, `STORAGE_EMULATOR_HOST`). Its own repetitions are not used: a create that is repeated unseen turns
its own success into a conflict.
"""

import io
import threading
from collections.abc import Mapping
from urllib.parse import quote

import aiohttp
import msgspec
from fsspec.asyn import sync
from gcsfs.core import GCSFileSystem

from pipeline.settings import checked_address, from_environment
from pipeline.storage._patience import Trouble

_EMULATOR = "STORAGE_EMULATOR_HOST"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)
_SIGN_IN = "set GOOGLE_APPLICATION_CREDENTIALS or run `gcloud auth application-default login`"
_UNREACHABLE = frozenset({"ClientConnectorError", "ConnectionTimeoutError"})
_UNSURE = frozenset({"ClientError", "TimeoutError", "ConnectionError", "FSTimeoutError"})


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RefusedCallError(Exception):
    """The server answered with an error status."""

    def __init__(self, reply: Reply, *, method: str, on_bucket: bool) -> None:
        super().__init__(f"{reply.status}")
        self.reply = reply
        self.method = method
        self.on_bucket = on_bucket


class GcsClient:
    """The calls on one bucket; safe for threads, not across a fork."""

    def __init__(self, bucket: str) -> None:
        self._bucket = quote(bucket, safe="")
        self._files: GCSFileSystem | None = None
        self._connecting = threading.Lock()

    def look(self, name: str | None = None, *, params: dict[str, str], headers: dict[str, str] | None = None) -> Reply:
        """Get from the address of an object, or of all of them when no name is given."""
        path = f"/storage/v1/b/{self._bucket}/o" + (f"/{quote(name, safe='')}" if name is not None else "")
        url = self._connected()._location + path  # noqa: SLF001 - as gcsfs's own modules do
        return self.call("GET", url, params=params, headers=headers)

    def upload(self, *, params: dict[str, str], headers: dict[str, str], body: bytes) -> Reply:
        """Call the address that makes objects."""
        url = f"{self._connected()._location}/upload/storage/v1/b/{self._bucket}/o"  # noqa: SLF001 - as above
        return self.call("POST", url, params=params, headers=headers, body=body)

    def call(
        self,
        method: str,
        url: str,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """Return the answer to one request; raises RefusedCallError for a status from 400 on."""
        files = self._connected()
        signed = files._get_headers(headers)  # noqa: SLF001 - may fetch a token: here, not in the shared event loop
        reply: Reply = sync(files.loop, _send, files, method, url, params or {}, signed, body)
        if reply.status >= 400:
            raise RefusedCallError(reply, method=method, on_bucket=url.endswith("/o"))
        return reply

    def _connected(self) -> GCSFileSystem:
        with self._connecting:
            if self._files is None:
                emulator = from_environment().value(_EMULATOR)
                if emulator:
                    checked_address(emulator if "://" in emulator else f"http://{emulator}", name=_EMULATOR)
                self._files = GCSFileSystem(
                    token="anon" if emulator else None,
                    access="read_write",
                    skip_instance_cache=True,
                    use_listings_cache=False,
                )
            return self._files


async def _send(  # noqa: PLR0917 - `sync` hands arguments on by position
    files: GCSFileSystem, method: str, url: str, params: dict[str, str], headers: dict[str, str], body: bytes | None
) -> Reply:
    await files._set_session()  # noqa: SLF001 - as gcsfs's own requests do
    session: aiohttp.ClientSession = files.session
    data = io.BytesIO(body) if body else None  # aiohttp warns of large bodies that are bare bytes
    async with session.request(
        method, url, params=params, headers=headers, data=data, timeout=_TIMEOUT, allow_redirects=False
    ) as answer:
        return Reply(status=answer.status, headers=answer.headers, body=await answer.read())


def explain(error: Exception) -> Trouble:
    """Return what the exception means for the call that met it."""
    if isinstance(error, RefusedCallError):
        return _explain_answer(error)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # aiohttp's, google-auth's and gcsfs's have no common root
    if kinds & _UNREACHABLE:
        return Trouble(kind="unreachable", reason=f"no server answers; check the network and {_EMULATOR}")
    if kinds & {"GoogleAuthError", "HttpError", "NonRetryableError"}:
        return Trouble(
            kind="misconfigured",
            reason=f"signing in failed ({type(error).__name__}); {_SIGN_IN}, and look at the clock",
        )
    if kinds & _UNSURE:
        return Trouble(kind="unknown", reason=f"the answer was lost ({type(error).__name__})")
    return Trouble(kind="refused", reason=f"the client failed with {type(error).__name__}; check the store's address")


def _explain_answer(error: RefusedCallError) -> Trouble:
    status = error.reply.status
    if status == 412:
        return Trouble(kind="taken", reason="it exists already")
    if status == 404 and (error.on_bucket or b"bucket does not exist" in error.reply.body):
        return Trouble(
            kind="misconfigured", reason="there is no such bucket; make it, or check its name and your project"
        )
    if status in {404, 410, 499} and error.method != "GET":
        return Trouble(kind="gone", reason="its upload was given up meanwhile; run the command again")
    if status == 404:
        return Trouble(kind="missing", reason="there is no such object")
    if status == 401:
        return Trouble(kind="refused", reason=f"not signed in (401); {_SIGN_IN}")
    if status == 403:
        return Trouble(
            kind="refused", reason="not permitted (403); the account needs storage.objects.create, get and list"
        )
    if status in {409, 429}:
        return Trouble(kind="busy", reason=f"the store is busy ({status})")
    if status == 408 or status >= 500:
        return Trouble(kind="unknown", reason=f"the store answered {status}")
    return Trouble(kind="refused", reason=f"the store answered {status}; check that {_EMULATOR} speaks GCS")

"""Calls to an S3 server through s3fs's own client, one request each.

s3fs keeps the credentials, the endpoint and the connections as its users set them (`AWS_…`, profiles, roles). Its own
and botocore's repetitions are off: a create that is repeated unseen turns its own success into a conflict.
"""

import threading
from typing import Any

from fsspec.asyn import sync
from s3fs import S3FileSystem

from pipeline.settings import checked_address
from pipeline.storage._ranges import Range
from pipeline.storage._s3_errors import status_of

Answer = dict[str, Any]  # its shape depends on the call, as everywhere in botocore
_CONFIG = {
    "retries": {"total_max_attempts": 1},
    "max_pool_connections": 32,
    "connect_timeout": 5,
    "read_timeout": 30,
}


class S3Client:
    """The calls on one bucket; safe for threads, not across a fork."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._files = S3FileSystem(
            skip_instance_cache=True, use_listings_cache=False, max_concurrency=1, config_kwargs=_CONFIG
        )
        self._files.retries = 1
        self._connecting = threading.Lock()
        self._connected = False

    def send(self, method: str, **parameters: object) -> Answer:
        """Return the answer to one request; raises whatever s3fs raises."""
        self._connect()
        answer: Answer = self._files.call_s3(method, Bucket=self._bucket, **parameters)
        return answer

    def body(self, **parameters: str) -> Range:
        """Return what one GetObject brings; an empty object has no range and brings nothing."""
        self._connect()
        try:
            fetched: Range = sync(self._files.loop, self._fetch, parameters)
        except Exception as error:
            if status_of(error) == 416:
                return Range(body=b"", size=0)
            raise
        return fetched

    async def _fetch(self, parameters: dict[str, str]) -> Range:
        answer = await self._files._call_s3("get_object", Bucket=self._bucket, **parameters)  # noqa: SLF001 - as s3fs's own files do
        async with answer["Body"] as stream:
            body = await stream.read()
        size = answer.get("ContentRange", "").rpartition("/")[2]
        return Range(body=body, size=int(size) if size.isdigit() else len(body))

    def _connect(self) -> None:
        """Make the client once, and refuse an endpoint that would show what is sent to the network."""
        with self._connecting:
            if not self._connected:
                checked_address(self._files.s3.meta.endpoint_url, name="AWS_ENDPOINT_URL")
                self._connected = True

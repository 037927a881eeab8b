"""The store on S3 and what speaks its language: a create is one PutObject with `If-None-Match: *`.

Bodies above one part are uploaded in parts, which become an object in one step at the end. Nothing is cached.
"""

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import BinaryIO

from pipeline.clock import Clock, SystemClock
from pipeline.errors import MissingError
from pipeline.storage import Upload, keys
from pipeline.storage._addresses import place_of
from pipeline.storage._parts import put_stream
from pipeline.storage._patience import Calls, Patience
from pipeline.storage._ranges import Range, range_file
from pipeline.storage._s3_client import Answer, S3Client
from pipeline.storage._s3_errors import explain

_MARK = "pairlog-write"  # metadata by which a write that was not acknowledged is recognised


class S3Store:
    """Objects below a prefix of a bucket."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        patience: Patience | None = None,
        client: S3Client | None = None,
    ) -> None:
        self._place = place_of(url)
        self._clock = clock or SystemClock()
        self._calls = Calls(explain=explain, clock=self._clock, patience=patience or Patience())
        self._client = client or S3Client(self._place.bucket)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._place.url

    def put_new(self, key: str, body: bytes) -> None:
        """Create the object whole, or raise ConflictError if the key is taken."""
        name, mark = self._place.name(keys.checked(key)), self._clock.nonce()
        self._calls.make(
            self._what("create", key),
            lambda: self._client.send("put_object", Key=name, Body=body, IfNoneMatch="*", Metadata={_MARK: mark}),
            settled=lambda: self._written(key, mark),
        )

    def put_stream(self, key: str, chunks: Iterable[bytes]) -> None:
        """Create an object of any size whole, or raise ConflictError; nothing is visible before the end."""
        put_stream(self, key, chunks)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        """Create the object of its parts, or raise ConflictError; nothing is visible before the end."""
        mark = self._clock.nonce()
        upload = self._opened(key, mark)
        try:
            done = [self._put_part(key, upload, number, part) for number, part in enumerate(parts, 1)]
            self._complete(key, upload, done, mark)
        except BaseException:
            # What ended the upload is the error; what is left of it waits for `pairlog store usage --clean`.
            with contextlib.suppress(Exception):
                self._client.send("abort_multipart_upload", **upload)
            raise

    def _opened(self, key: str, mark: str) -> dict[str, str]:
        name = self._place.name(key)
        answer = self._call("create_multipart_upload", key, Key=name, Metadata={_MARK: mark})
        return {"Key": name, "UploadId": answer["UploadId"]}

    def _put_part(self, key: str, upload: dict[str, str], number: int, part: bytes) -> Answer:
        answer = self._call("upload_part", key, **upload, PartNumber=number, Body=part)
        return {"PartNumber": number, "ETag": answer["ETag"]}

    def _complete(self, key: str, upload: dict[str, str], done: list[Answer], mark: str) -> None:
        self._calls.make(
            self._what("create", key),
            lambda: self._client.send(
                "complete_multipart_upload", **upload, MultipartUpload={"Parts": done}, IfNoneMatch="*"
            ),
            settled=lambda: self._written(key, mark),
        )

    def _written(self, key: str, mark: str) -> Answer | None:
        """Return what is known of the object if it was written under this mark."""
        with contextlib.suppress(MissingError):
            found = self._call("head_object", key, Key=self._place.name(key))
            return found if found.get("Metadata", {}).get(_MARK) == mark else None
        return None

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        name = self._place.name(key)
        return self._calls.make(self._what("read", key), lambda: self._client.body(Key=name)).body

    def open(self, key: str) -> BinaryIO:
        """Return a seekable file of the object's bytes, or raise MissingError."""

        def fetch(start: int, stop: int) -> Range:
            wanted = {"Key": self._place.name(key), "Range": f"bytes={start}-{stop - 1}"}
            return self._calls.make(self._what("read", key), lambda: self._client.body(**wanted))

        return range_file(fetch)

    def exists(self, key: str) -> bool:
        """Say whether there is such an object now."""
        try:
            self._call("head_object", key, Key=self._place.name(key))
        except MissingError:
            return False
        return True

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key below the folder that sorts behind `after`, in order."""
        return sorted(key for key in self._sizes(folder, after=after) if key > after)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return every key below the folder with the size of its object."""
        return self._sizes(folder, after="")

    def _sizes(self, folder: str, *, after: str) -> dict[str, int]:
        begin = {"StartAfter": self._place.name(after)} if after else {}
        objects = (each for page in self._pages(folder, **begin) for each in page.get("Contents", ()))
        return {self._place.key(each["Key"]): each["Size"] for each in objects if not each["Key"].endswith("/")}

    def _pages(self, folder: str, **parameters: str) -> Iterator[Answer]:
        more: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", folder, Prefix=self._place.name(f"{folder}/"), **parameters, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def uploads(self) -> list[Upload]:
        """Return the uploads in parts that were begun and neither ended nor given up."""
        prefix, found = self._place.prefix, list[Upload]()
        more: dict[str, str] = {}
        while True:
            page = self._call("list_multipart_uploads", "uploads", Prefix=prefix, **more)
            for each in page.get("Uploads") or ():
                begun: datetime = each["Initiated"]
                found.append(Upload(key=self._place.key(each["Key"]), upload_id=each["UploadId"], begun_at=begun))
            if not page.get("IsTruncated"):
                return found
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def give_up(self, upload: Upload) -> None:
        """Remove the parts of an upload that nobody will end."""
        what, gone = {"Key": self._place.name(upload.key), "UploadId": upload.upload_id}, Answer()
        self._calls.make(
            self._what("give up the upload of", upload.key),
            lambda: self._client.send("abort_multipart_upload", **what),
            settled=lambda: gone,
        )

    def _call(self, method: str, key: str, **parameters: object) -> Answer:
        what = self._what(_VERBS[method], key)
        return self._calls.make(what, lambda: self._client.send(method, **parameters))

    def _what(self, verb: str, key: str) -> str:
        return f"cannot {verb} {key} in {self.url}"


_VERBS = {
    "create_multipart_upload": "create",
    "upload_part": "create",
    "head_object": "look for",
    "list_objects_v2": "list",
    "list_multipart_uploads": "list the",
}

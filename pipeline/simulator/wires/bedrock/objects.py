"""S3 in its smallest form: put, get, list and delete objects of any bucket."""

import shutil
from pathlib import Path
from xml.sax.saxutils import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import download
from pipeline.simulator.files import StoredFile
from pipeline.simulator.wires._speaking import Speaker
from pipeline.simulator.wires.bedrock.speaking import refused, xml

_CHUNKED = "aws-chunked"
_MOST_KEYS = 1_000


class Objects:
    """Objects are files named `bucket/key`."""

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route, path = self._speaker.route, f"{prefix}/{{bucket}}/{{key:path}}"
        return [
            route(f"{prefix}/{{bucket}}", "list", self._list),
            route(path, "upload", self._put, method="PUT"),
            route(path, "download", self._get),
            route(path, "delete", self._delete, method="DELETE"),
        ]

    def found(self, name: str) -> StoredFile | None:
        """Return the object, if there is one."""
        return self._engine.files.get(file_id(name), wire=self._speaker.wire)

    def add(self, name: str, *parts: Path) -> None:
        """Make an object of the bytes of these files, unless it is there."""
        if self.found(name) is not None:
            return
        path = self._engine.files.path_of(file_id(name))
        with path.open("wb") as target:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, target)
        self._keep(name, path)

    def _keep(self, name: str, path: Path) -> StoredFile:
        file = StoredFile(
            file_id=file_id(name),
            wire=self._speaker.wire,
            filename=name,
            purpose="object",
            bytes=path.stat().st_size,
            created_at=self._engine.now(),
            expires_at=None,
            path=path,
        )
        return self._engine.files.add(file)

    async def _put(self, request: Request) -> Response:
        if _CHUNKED in request.headers.get("content-encoding", ""):
            raise refused(501, "NotImplemented", "The simulator takes bodies in one piece.")
        name, path = _name(request), self._engine.files.path_of(file_id(_name(request)))
        with path.open("wb") as target:
            async for chunk in request.stream():
                await run_in_threadpool(target.write, chunk)
        file = self._keep(name, path)
        self._speaker.record_file(file, "uploaded", file.bytes)
        return Response(status_code=200, headers={"etag": '"simulated"'})

    async def _get(self, request: Request) -> Response:
        file = self.found(_name(request))
        if file is None:
            raise refused(404, "NoSuchKey", "The specified key does not exist.")
        self._speaker.record_file(file, "downloaded", file.bytes)
        return await download(self._engine, request, file.path, {"etag": '"simulated"'})

    async def _delete(self, request: Request) -> Response:
        file = self.found(_name(request))
        if file is not None:
            self._engine.files.delete(file.file_id)
            self._speaker.record_file(file, "deleted", 0)
        return Response(status_code=204)

    async def _list(self, request: Request) -> Response:
        bucket, query = request.path_params["bucket"], request.query_params
        begin, after = f"{bucket}/{query.get('prefix', '')}", query.get("continuation-token", "")
        files = {file.filename: file for file in self._engine.files.all(wire=self._speaker.wire)}
        names = sorted(name for name in files if name.startswith(begin) and files[name].purpose == "object")
        rest = [name for name in names if name > after]
        shown = rest[: min(int(query.get("max-keys", _MOST_KEYS)), _MOST_KEYS)]
        more = shown != rest
        inner = (
            f"<Name>{bucket}</Name><Prefix>{escape(query.get('prefix', ''))}</Prefix>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>"
            + (f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if more and shown else "")
            + "".join(_row(files[name], bucket) for name in shown)
        )
        return xml(f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{inner}</ListBucketResult>')


def file_id(name: str) -> str:
    """Return the id of the file that holds an object."""
    return f"object-{digest(name.encode())[:32]}"


def _name(request: Request) -> str:
    return f"{request.path_params['bucket']}/{request.path_params['key']}"


def _row(file: StoredFile, bucket: str) -> str:
    key = escape(file.filename.removeprefix(f"{bucket}/"))
    return f"<Contents><Key>{key}</Key><Size>{file.bytes}</Size><ETag>&quot;simulated&quot;</ETag></Contents>"

"""The small part of Google Cloud Storage that batches need: create, look up, list, read and delete objects.

What a job wrote appears under its output directory in two shards, as if it had been written by two workers.
"""

import re
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import download
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.files import StoredFile
from pipeline.simulator.jobs import Job
from pipeline.simulator.wires._google.speaking import GoogleManner, decoded, invalid, number_of, problem_of, time_of
from pipeline.simulator.wires._speaking import RefusedError, Speaker, json_answer

_BOUNDARY = re.compile(r'boundary="?([^";]+)')
_PAGE = 1_000


def file_id_of(uri: str) -> str:
    """Return the name under which the engine keeps an object."""
    return f"gcs-{digest(uri.encode())[:40]}"


class Storage:
    """The routes of a bucket."""

    def __init__(self, engine: Engine, wire: str) -> None:
        self._engine = engine
        self._wire = wire
        self._speaker = Speaker(engine, wire, GoogleManner(needs_key=False))

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        objects = f"{prefix}/storage/v1/b/{{bucket}}/o"
        return [
            route(f"{prefix}/upload/storage/v1/b/{{bucket}}/o", "upload", self._upload, method="POST"),
            route(objects, "list", self._list),
            route(f"{objects}/{{name:path}}", "download", self._get),
            route(f"{objects}/{{name:path}}", "delete", self._delete, method="DELETE"),
        ]

    async def _upload(self, request: Request) -> Response:
        kind, name = request.query_params.get("uploadType"), request.query_params.get("name")
        mark = self._engine.clock.nonce()
        path = self._engine.files.path_of(f"upload-{mark}")
        with path.open("wb") as file:
            async for chunk in request.stream():
                await run_in_threadpool(file.write, chunk)
        if kind == "multipart":
            name = await run_in_threadpool(_unwrapped, path, request.headers.get("content-type", ""))
        elif kind != "media":
            raise RefusedError(invalid("uploadType must be media or multipart."))
        if not name:
            raise RefusedError(invalid("Required parameter: name"))
        return json_answer(_rendered(self._created(request, name, path)))

    def _created(self, request: Request, name: str, path: Path) -> StoredFile:
        uri = f"gs://{request.path_params['bucket']}/{name}"
        with self._engine.lock:
            taken = self._engine.files.get(file_id_of(uri), wire=self._wire) is not None
            if taken and request.query_params.get("ifGenerationMatch") == "0":
                path.unlink()
                message = "At least one of the pre-conditions you specified did not hold."
                raise RefusedError(problem_of(412, message))
            return self._add(uri, path, purpose="object")

    def _add(self, uri: str, path: Path, *, purpose: str) -> StoredFile:
        file = StoredFile(
            file_id=file_id_of(uri),
            wire=self._wire,
            filename=uri,
            purpose=purpose,
            bytes=path.stat().st_size,
            created_at=self._engine.now(),
            expires_at=None,
            path=path,
        )
        self._speaker.record_file(file, "uploaded" if purpose == "object" else "written", file.bytes)
        return self._engine.files.add(file)

    async def _list(self, request: Request) -> Response:
        bucket = f"gs://{request.path_params['bucket']}/"
        start = bucket + request.query_params.get("prefix", "")
        files = [file for file in self._engine.files.all(wire=self._wire) if file.filename.startswith(start)]
        files.sort(key=lambda file: file.filename)
        begin = number_of(request, "pageToken", default=0)
        size = number_of(request, "maxResults", default=_PAGE)
        answer: JsonObject = {"kind": "storage#objects"}
        if files[begin : begin + size]:
            answer["items"] = [_rendered(file) for file in files[begin : begin + size]]
        return json_answer(answer | ({"nextPageToken": str(begin + size)} if begin + size < len(files) else {}))

    async def _get(self, request: Request) -> Response:
        file = self._found(request)
        if request.query_params.get("alt") != "media":
            return json_answer(_rendered(file))
        self._speaker.record_file(file, "downloaded", file.bytes)
        return await download(self._engine, request, file.path, {})

    async def _delete(self, request: Request) -> Response:
        file = self._found(request)
        self._engine.files.delete(file.file_id)
        self._speaker.record_file(file, "deleted", 0)
        return Response(status_code=204)

    def _found(self, request: Request) -> StoredFile:
        uri = f"gs://{request.path_params['bucket']}/{request.path_params['name']}"
        file = self._engine.files.get(file_id_of(uri), wire=self._wire)
        if file is None:
            raise RefusedError(problem_of(404, f"No such object: {uri.removeprefix('gs://')}"))
        return file

    def publish(self, job: Job, directory: str) -> None:
        """Put what an ended job wrote into its output directory, once."""
        whole = self._engine.files.get(job.output_file_id or "", wire=self._wire)
        first = f"{directory}/predictions-00000-of-00002.jsonl"
        if whole is None or self._engine.files.get(file_id_of(first), wire=self._wire) is not None:
            return
        paths = [self._engine.files.path_of(f"{whole.file_id}-{number}") for number in (0, 1)]
        with whole.path.open("rb") as source, paths[0].open("wb") as even, paths[1].open("wb") as odd:
            for number, line in enumerate(source):
                (odd if number % 2 else even).write(line)
        self._add(f"{directory}/predictions-00001-of-00002.jsonl", paths[1], purpose="shard")
        self._add(first, paths[0], purpose="shard")


def _unwrapped(path: Path, content_type: str) -> str | None:
    """Replace a multipart body on disk by its second part; return the name its first part gives."""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise RefusedError(invalid("A multipart upload needs a boundary."))
    parts = path.read_bytes().split(b"--" + match[1].encode())
    if len(parts) < 4:
        raise RefusedError(invalid("A multipart upload has two parts."))
    described, content = (part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts[1:3])
    path.write_bytes(content)
    name = decoded(described).get("name")
    return name if isinstance(name, str) else None


def _rendered(file: StoredFile) -> JsonObject:
    bucket, _, name = file.filename.removeprefix("gs://").partition("/")
    return {
        "kind": "storage#object",
        "id": f"{bucket}/{name}/1",
        "bucket": bucket,
        "name": name,
        "size": str(file.bytes),
        "generation": "1",
        "metageneration": "1",
        "timeCreated": time_of(file.created_at),
        "updated": time_of(file.created_at),
    }

"""What a person brings: samples and templates, read from a path or an fsspec URL.

Whatever goes wrong leaves this module as a `ConfigError` of one sentence that shows no credentials. Stored objects
are read elsewhere.
"""

import io
import posixpath
import re
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import fsspec
import msgspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from pipeline.errors import ConfigError, PipelineError
from pipeline.samples import Samples
from pipeline.settings import is_loopback
from pipeline.storage.source_formats import Allowance, decoded, read_csv, read_jsonl, read_parquet, same_columns

MOST_BYTES = 4 * 2**30
_MOST_TEXT_BYTES = 2**20
_PORT = re.compile(r"(?:\[[0-9a-fA-F:.]*\]|[^:]*)(?::[0-9]*)?")
_IPV6 = re.compile(r"(https?)://\[[0-9a-fA-F:.]+\]")
_OF_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers", ".tsv", ".tab")
_KNOWN = ".csv, .jsonl, .ndjson, .parquet, or a folder of .txt or .parquet files"


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where something is, and what messages call it."""

    files: AbstractFileSystem
    path: str
    shown: str

    def child(self, name: str) -> "_Place":
        shown = f"{self.shown.rstrip('/')}/{name}"
        return _Place(files=self.files, path=f"{self.path.rstrip('/')}/{name}", shown=shown)


def read_samples(location: str, *, base: str, most_bytes: int = MOST_BYTES) -> Samples:
    """Return the samples at a path or URL; a relative one starts at `base`, the folder of the experiment file."""
    full = _resolved(location, base)
    with _one_sentence(full):
        place = _place(full)
        kind, size = _kind_and_size(place)
        if kind == "directory":
            return _folder(place, most_bytes)
        if kind == "file":
            return _file(place, Allowance(place.shown, stored=size, most=most_bytes))
        raise ConfigError(f"{place.shown} is neither a file nor a folder; give {_KNOWN}")


def check_there(location: str, *, base: str) -> None:
    """Refuse a path or URL at which there is nothing that samples could be read from."""
    full = _resolved(location, base)
    with _one_sentence(full):
        place = _place(full)
        if _kind_and_size(place)[0] not in {"directory", "file"}:
            raise ConfigError(f"{place.shown} is neither a file nor a folder; give {_KNOWN}")


def read_text(location: str, *, base: str) -> str:
    """Return the text of a small UTF-8 file, such as a template."""
    full = _resolved(location, base)
    with _one_sentence(full):
        place = _place(full)
        with place.files.open(place.path, "rb") as file:
            data = file.read(_MOST_TEXT_BYTES + 1)
        if len(data) > _MOST_TEXT_BYTES:
            raise ConfigError(f"{place.shown} has more than {_MOST_TEXT_BYTES} bytes; shorten it")
        return decoded(data, place.shown)


def list_files(location: str, *, endings: tuple[str, ...]) -> list[str]:
    """Return the files directly in a folder or prefix that end so, in order; none where there is no such folder."""
    with _one_sentence(location):
        place = _place(location)
        try:
            entries = place.files.ls(place.path, detail=True)
        except FileNotFoundError:
            return []
        names = (posixpath.basename(entry["name"]) for entry in entries if entry["type"] == "file")
        wanted = sorted(name for name in names if name.lower().endswith(endings) and not name.startswith("."))
        return [f"{location.rstrip('/')}/{name}" for name in wanted]


def shown(location: str) -> str:
    """Return the location as it may be printed: without user, password, query and control characters."""
    scheme, separator, rest = location.partition("://")
    if separator:
        if _has_credentials(location):
            rest = f"***@{rest.rpartition('@')[2]}"
        rest = rest.partition("?")[0]
    plain = f"{scheme}{separator}{rest}"
    return plain if plain.isprintable() else repr(plain)


def _has_credentials(url: str) -> bool:
    """Say whether a user or password stands in the URL; a secret may itself hold slashes."""
    host, _, path = url.partition("://")[2].partition("/")
    return "@" in host or ("@" in path and not _PORT.fullmatch(host))


def _resolved(location: str, base: str) -> str:
    if location.startswith("~/"):
        return str(Path(location).expanduser())
    if "://" in location or location.startswith("/"):
        return location
    if "://" not in base:
        return str(Path(base) / location)
    scheme, _, folder = base.partition("://")
    return f"{scheme}://{posixpath.normpath(posixpath.join(folder, location))}"


def _place(full: str) -> _Place:
    if "://" not in full:
        return _Place(files=LocalFileSystem(), path=str(Path(full).absolute()), shown=shown(full))
    name = shown(full)
    if _has_credentials(full):
        raise ConfigError(f"{name} holds credentials; take them out and set them in the environment")
    by_number = _IPV6.match(full)
    if "::" in (full[by_number.end() :] if by_number else full):
        raise ConfigError(f"{name} is a chain of addresses; give one plain address")
    if full.startswith("http://") and not is_loopback(urlsplit(full).hostname or ""):
        raise ConfigError(f"{name} would be read without encryption; use https")
    fresh = {"skip_instance_cache": True, "use_listings_cache": False}
    if by_number:  # fsspec would take the address of the host for a chain
        return _Place(files=fsspec.filesystem(by_number[1], **fresh), path=full, shown=name)
    files, path = fsspec.url_to_fs(full, **fresh)
    return _Place(files=files, path=path, shown=name)


@contextmanager
def _one_sentence(full: str) -> Iterator[None]:
    """Turn whatever a backend raises into a sentence; the cause is kept where it cannot hold a secret."""
    name = shown(full)
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:  # noqa: BLE001 - every backend has errors of its own, and none may leave
        raise ConfigError(f"{name} {_what(error, full)}") from (error if name == full else None)


def _what(error: Exception, full: str) -> str:
    match error:
        case FileNotFoundError() if "://" in full:
            return "does not exist or cannot be reached; check the address"
        case FileNotFoundError() | NotADirectoryError():
            return "does not exist; check the path, which starts at the experiment file's folder"
        case PermissionError():
            return "may not be read; check its permissions or your credentials"
        case IsADirectoryError():
            return "is a folder; give a file"
        case ImportError():
            return "needs a package that is not installed; copy the file to a disk, s3:// or gs://"
        case ValueError() if "Protocol not known" in str(error):
            return "has an unknown scheme; use a path, s3://, gs:// or file://"
        case _:
            return f"could not be read ({type(error).__name__}); check the address and your access to it"


def _kind_and_size(place: _Place) -> tuple[str, int | None]:
    info = place.files.info(place.path)
    return info["type"], info.get("size")


def _file(place: _Place, allowance: Allowance) -> Samples:
    """Return the samples in a file, read by what its name ends in."""
    suffix = posixpath.splitext(place.path.partition("?")[0])[1].lower()
    if suffix not in (".csv", ".jsonl", ".ndjson", ".parquet"):
        hint = "give its folder" if suffix == ".txt" else f"give {_KNOWN}"
        hint = "save it as CSV" if suffix in _OF_SPREADSHEETS else hint
        raise ConfigError(f"{place.shown} has the ending {suffix!r}, which is not known; {hint}")
    with place.files.open(place.path, "rb") as file:
        if suffix == ".parquet":
            return Samples.of(read_parquet(file, place.shown, allowance), source=place.shown)
        buffered = io.BufferedReader(file, 2**20)  # fsspec's own line iteration reads a block for every line
        lines = array("q")
        table = (read_csv if suffix == ".csv" else read_jsonl)(buffered, place.shown, allowance, begins=lines)
        return Samples.of(table, source=place.shown, at=lambda row: f"line {lines[row]}")


def _folder(place: _Place, most_bytes: int) -> Samples:
    """Return the samples of a folder of texts, or of a folder of Parquet parts."""
    entries = place.files.ls(place.path, detail=True)
    files = {posixpath.basename(entry["name"]): entry for entry in entries if entry["type"] == "file"}
    visible = sorted(name for name in files if not name.startswith("."))
    texts = [name for name in visible if name.lower().endswith(".txt")]
    parts = [name for name in visible if name.lower().endswith(".parquet")]
    if texts and parts:
        raise ConfigError(f"{place.shown} holds .txt and .parquet files; keep one kind in the folder")
    if not texts and not parts:
        raise ConfigError(f"{place.shown} holds no .txt and no .parquet file; give {_KNOWN}")
    for name in texts + parts:
        if (legible := name.encode(errors="replace").decode()) != name:
            raise ConfigError(f"{place.shown} holds a file whose name is not UTF-8, {legible!r}; rename it")
    stored = sum(files[name].get("size") or 0 for name in texts + parts)
    allowance = Allowance(place.shown, stored=stored, most=most_bytes)
    if texts:
        return Samples.of(_texts(place, texts, allowance), source=place.shown, at=lambda row: f"file {texts[row]}")
    return Samples.of(_parts(place, parts, allowance), source=place.shown)


def _texts(place: _Place, names: list[str], allowance: Allowance) -> pa.Table:
    texts: list[str] = []
    for start in range(0, len(names), 256):
        some = names[start : start + 256]
        paths = [place.child(name).path for name in some]
        for name, data in zip(some, place.files.cat_ranges(paths, None, None, on_error="raise"), strict=True):
            allowance.take(len(data))
            texts.append(decoded(data, place.child(name).shown))
    ids = [name[: -len(".txt")] for name in names]
    return pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.large_string())})


def _parts(place: _Place, names: list[str], allowance: Allowance) -> pa.Table:
    tables: list[pa.Table] = []
    for name in names:
        part = place.child(name)
        with part.files.open(part.path, "rb") as file:
            tables.append(read_parquet(file, part.shown, allowance))
        same_columns(tables[0], tables[-1], names=(names[0], part.shown))
    return pa.concat_tables(tables, promote_options="permissive")

"""The address of an object store: which bucket, which prefix, and what may be printed of it."""

import re

import msgspec

from pipeline.errors import ConfigError
from pipeline.storage import keys

_LONGEST_PREFIX = 512  # bytes: a name in a bucket has 1,024 at most, and our keys need up to 400 of them
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A prefix in a bucket."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def url(self) -> str:
        """The address, as it may be printed."""
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    def name(self, key: str) -> str:
        """Return the object's name in the bucket."""
        return self.prefix + key

    def key(self, name: str) -> str:
        """Return the key of an object of this store by its name in the bucket."""
        return name[len(self.prefix) :]


def place_of(url: str) -> Place:
    """Return the bucket and prefix of `scheme://bucket[/prefix]`, or raise ConfigError that shows no credentials."""
    scheme, _, rest = url.partition("://")
    if "@" in rest or "?" in rest or "#" in rest:
        raise ConfigError(
            f"the {scheme}:// store holds more than bucket and prefix; set credentials in the environment"
        )
    bucket, _, path = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            f"store {scheme}://{bucket!r}: this is not the name of a bucket; use {scheme}://BUCKET/PREFIX"
        )
    prefix = path.strip("/")
    if len(prefix) > _LONGEST_PREFIX:
        raise ConfigError(f"store {scheme}://{bucket}: its prefix has {len(prefix)} bytes; {_LONGEST_PREFIX} fit")
    if prefix:
        keys.checked(prefix)
    return Place(scheme=scheme, bucket=bucket, prefix=f"{prefix}/" if prefix else "")

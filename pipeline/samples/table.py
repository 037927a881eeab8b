"""The samples of an experiment: one immutable, checked table, whatever file they came from.

Reading files is done in `storage.sources`; making pairs of samples in `pairing`.
"""

import hashlib
import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.domain import Sample
from pipeline.errors import ConfigError, CorruptObjectError
from pipeline.ids import Digest, SampleId
from pipeline.samples.checks import COLUMNS, At, checked, numbered
from pipeline.samples.content import column_digest
from pipeline.wording import nearest

_TEXTS_AT_ONCE = 64
_SPELLED_LIKE = 0.88  # `groups` is like `group`, and `content` not like `context`
_OTHER_NAMES = {
    "contestant": ("model", "model_name", "model_id", "system", "author", "writer", "student"),
    "group": ("prompt", "prompt_id", "question", "question_id", "instruction", "topic"),
}


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """The samples in file order.

    `collapsed` counts the rows left out that repeated an earlier one word for word, `blank` those that held nothing.
    The table has the columns of `COLUMNS` (null where nothing was given), then the metadata as it came.
    """

    table: pa.Table
    collapsed: int = 0
    blank: int = 0

    @classmethod
    def of(cls, table: pa.Table, *, source: str, at: At = numbered) -> "Samples":
        """Return the checked samples of a table, or refuse it in one sentence.

        Args:
            table: the samples with their columns.
            source: what messages call it.
            at: what they call a row of it, by its position.

        """
        found = checked(table, source=source, at=at)
        collapsed = len(table) - found.blank - len(found.table)
        return cls(table=found.table, collapsed=collapsed, blank=found.blank)

    @classmethod
    def from_parquet_bytes(cls, data: bytes, *, source: str) -> "Samples":
        """Return samples that `to_parquet_bytes` stored; `source` names the object in messages."""
        try:
            file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
            return cls.of(file.read(), source=source)
        except (pa.ArrowException, OSError, ConfigError) as error:
            raise CorruptObjectError(f"{source} does not hold samples: {error}") from error

    def to_parquet_bytes(self) -> bytes:
        """Return the table as a Parquet file."""
        sink = io.BytesIO()
        pq.write_table(
            self.table, sink, compression="zstd", compression_level=1, row_group_size=2**16, write_page_checksum=True
        )
        return sink.getvalue()

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, position: int) -> Sample:
        sample_id, text, *others = (self.table.column(name)[position].as_py() for name in COLUMNS)
        return Sample(sample_id=sample_id, text=text, **dict(zip(COLUMNS[2:], others, strict=True)))

    def ids(self) -> list[SampleId]:
        """Return every id, in order."""
        return [SampleId(each) for each in self._strings("id", otherwise="id")]

    def texts(self) -> list[str]:
        """Return every text, in order."""
        return list(self.each_text())

    def each_text(self) -> Iterator[str]:
        """Yield every text, in order, without having more than some of them in memory as strings."""
        for batch in self.table.select(["text"]).to_batches(max_chunksize=_TEXTS_AT_ONCE):
            yield from batch.column("text").to_pylist()

    def groups(self) -> list[str | None]:
        """Return every sample's group, None where it has none."""
        return list(self.table.column("group").to_pylist())

    def contestants(self) -> list[str]:
        """Return what each sample stands for in a ranking: its contestant, or its id."""
        return self._strings("contestant", otherwise="id")

    def contexts(self) -> list[str | None]:
        """Return every sample's context, None where it has none."""
        return list(self.table.column("context").to_pylist())

    def criteria(self) -> list[str | None]:
        """Return every sample's own criterion, None where it has none."""
        return list(self.table.column("criterion").to_pylist())

    def statements(self) -> list[str | None]:
        """Return the short name of every sample's own criterion, from the column `statement` where there is one."""
        return self._optional("statement", pa.string())

    def turns(self) -> list[list[str] | None]:
        """Return what is said after each answer in every sample's conversation, from the column `turns` if any."""
        return self._optional("turns", pa.list_(pa.string()))

    def has(self, name: str) -> bool:
        """Say whether some sample has a value in the column of this name."""
        return name in self.table.column_names and self.table.column(name).null_count < len(self)

    def misnamed(self) -> dict[str, str]:
        """Return the columns that mean nothing here and are spelled almost like one that is missing, and that one."""
        missing = [name for name in (*COLUMNS, "statement") if not self.has(name)]
        others = (name for name in self.table.column_names if name not in (*COLUMNS, "statement"))
        near = {name: nearest(name, missing, like=_SPELLED_LIKE) for name in others}
        return {name: meant for name, meant in near.items() if meant}

    def otherwise_named(self) -> dict[str, str]:
        """Return for each missing column one that seems to be it under another name, whose values samples share."""
        called = {name.strip().casefold(): name for name in self.table.column_names if name not in COLUMNS}
        missing = {meant: names for meant, names in _OTHER_NAMES.items() if not self.has(meant)}
        found = {
            meant: [called[name] for name in names if name in called and self._is_shared(called[name])]
            for meant, names in missing.items()
        }
        return {meant: names[0] for meant, names in found.items() if names}

    def _is_shared(self, name: str) -> bool:
        """Say whether a column holds names or texts, several of them, and some in more than one sample."""
        column = self.table.column(name)
        kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
        if not any(is_kind(column.type) for is_kind in kinds):
            return False
        return bool(1 < pc.count_distinct(column).as_py() < len(column) - column.null_count)

    def _optional(self, name: str, kind: pa.DataType) -> list[Any]:  # Any: values of the kind, or None
        """Return the values of a column that need not be there; one of another kind is metadata and means nothing."""
        if name not in self.table.column_names:
            return [None] * len(self)
        try:
            return list(self.table.column(name).cast(kind).to_pylist())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return [None] * len(self)

    def digest(self) -> Digest:
        """Return the name of the content: the same for the same values, however they were stored."""
        made = hashlib.sha256(b"pairlog samples 1")
        made.update(len(self).to_bytes(8, "little"))
        for name in self.table.column_names:
            made.update(column_digest(name, self.table.column(name)))
        return Digest(made.hexdigest())

    def _strings(self, name: str, *, otherwise: str) -> list[str]:
        filled = pc.call_function("coalesce", [self.table.column(name), self.table.column(otherwise)])
        return list(filled.to_pylist())

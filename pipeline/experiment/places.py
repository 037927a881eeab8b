"""Where the fields of an experiment file stand, for mistakes that are only seen once the file has been read."""

from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.errors import ConfigError
from pipeline.experiment.document import Node, joined, read_document


class Places:
    """The lines of a file's fields; the text is looked at again only where something is wrong."""

    def __init__(self, text: bytes, *, source: str) -> None:
        self._text = text
        self._source = source

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """Have whatever is refused inside say the file, the line and the field at this path."""
        try:
            yield
        except ConfigError as error:
            raise ConfigError(f"{self._named(path, str(error))}{error}") from error

    def _named(self, path: tuple[str | int, ...], said: str) -> str:
        node, field = read_document(self._text, source=self._source), ""
        for step in path:
            node = _child(node, step)
            field = f"{field}[{step}]" if isinstance(step, int) else joined(field, step)
        is_said = said.startswith((field, str(path[0]))) or f"{path[0]}[" in said
        return f"{self._source}, line {node.line}: {'' if is_said else f'{field}: '}"


def _child(node: Node, step: str | int) -> Node:
    """Return what stands there, or the node itself where the file leaves it out or writes one value for a list."""
    if isinstance(node.value, dict) and isinstance(step, str):
        return node.value.get(step, node)
    if isinstance(node.value, tuple) and isinstance(step, int):
        return node.value[step]
    return node

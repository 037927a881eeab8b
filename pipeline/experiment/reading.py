"""From the text of an experiment file to its value, or to one sentence that says all there is to mend."""

import re
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

from pipeline.errors import ConfigError
from pipeline.experiment.document import Node, clipped, joined, read_document
from pipeline.experiment.spec import ExperimentFile, TaskKeys, file_type
from pipeline.wording import nearest, remedy

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"(?:Expected `([^`]*)`|Invalid enum value).*", re.DOTALL)
_MOST_TOLD = 5
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def read_experiment(text: bytes, *, source: str, tasks: Mapping[str, TaskKeys]) -> ExperimentFile:
    """Return the validated experiment file; `source` is what messages call it, `tasks` which keys go with which."""
    root = read_document(text, source=source)
    kind = _kind(root, source, tasks)
    try:
        file = msgspec.convert(root.plain(), kind)
        msgspec.convert(file.options, tasks[file.task].own)  # the rules between a task's own keys
    except msgspec.ValidationError as error:
        raise ConfigError(_all_explained(str(error), root, kind, source)) from error
    return file


def _all_explained(message: str, root: Node, kind: type[ExperimentFile], source: str) -> str:
    """Return the first mistake as a sentence about the file, and after it those of other keys."""
    first = _explain(message, root, kind, source)
    others = [_explain(each, root, kind, source) for each in _mistakes(root, kind)]
    told = [each.removeprefix(f"{source}, ") for each in dict.fromkeys(others) if each != first]
    left = len(told) - _MOST_TOLD
    for more in [*told[:_MOST_TOLD], *([f"{left} more"] if left > 0 else [])]:
        first += f"{'' if first.endswith('?') else ';'} also {more}"
    return first


def _mistakes(root: Node, kind: type[ExperimentFile]) -> Iterator[str]:
    """Yield msgspec's message about each key that is wrong by itself, in file order, then about those that are missing.

    A missing key that an unknown one resembles is not missing: it is misspelt.
    """
    if not isinstance(keys := root.value, dict):
        return
    known = {field.name: field for field in msgspec.structs.fields(kind)}
    for key, node in keys.items():
        if key not in known:
            yield f"Object contains unknown field `{key}`"
        else:
            yield from _mistakes_at(f".{key}", node, known[key].type)
    meant = {nearest(key, known) for key in keys if key not in known}
    for name, field in known.items():
        if field.required and name not in keys and name not in meant:
            yield f"Object missing required field `{name}`"


def _mistakes_at(path: str, node: Node, kind: object) -> Iterator[str]:
    """Yield what msgspec says about the value; of a list with wrong entries, about each of them."""
    try:
        msgspec.convert(node.plain(), kind)
    except msgspec.ValidationError as error:
        what, inside = _parted(str(error))
        if isinstance(node.value, tuple) and inside and len(node.value) > 1:
            for index, entry in enumerate(node.value):
                alone = Node(value=(entry,), line=entry.line)
                yield from (
                    each.replace(f"`${path}[0]", f"`${path}[{index}]") for each in _mistakes_at(path, alone, kind)
                )
        else:
            yield f"{what} - at `${path}{inside}`"


def _parted(message: str) -> tuple[str, str]:
    """Return what msgspec says, and the path of where."""
    found = _PLACE.fullmatch(message)
    assert found is not None, "every part of the pattern is optional"
    return found["what"], found["path"] or ""


def _kind(root: Node, source: str, tasks: Mapping[str, TaskKeys]) -> type[ExperimentFile]:
    """Return what this file may say, by the task it names; refuse a task nobody knows, and keys of other tasks."""
    keys = root.value if isinstance(root.value, dict) else {}
    task = keys["task"].value if "task" in keys else "pairwise"
    if not isinstance(task, str):
        return ExperimentFile
    if task not in tasks:
        raise ConfigError(f"{source}, line {keys['task'].line}: task is {clipped(repr(task))}; {remedy(task, tasks)}")
    for key, node in keys.items():
        takers = [name for name, known in tasks.items() if key in known.all]
        if takers and task not in takers:
            raise ConfigError(
                f"{source}, line {node.line}: {key} goes with task {' or '.join(takers)}, not with {task}; "
                "remove it, or change the task"
            )
    return file_type(task, tasks[task].own)


def _explain(message: str, root: Node, file: type[ExperimentFile], source: str) -> str:
    """Return msgspec's message as a sentence about the file."""
    what, path = _parted(message)
    node, kind = _follow(root, _steps(path), inspect.type_info(file))
    shown = path.removeprefix(".")
    if unknown := _UNKNOWN.fullmatch(what):
        return _unknown_key(unknown[1], shown, node, kind, source)
    where = f"{source}, line {node.line}"
    if missing := _MISSING.fullmatch(what):
        return f"{where}: {joined(shown, missing[1])} is missing; add {_advice(_field(kind, missing[1]), 'it')}"
    if expected := _EXPECTED.fullmatch(what):
        return f"{where}: {_wrong_value(shown, node, kind, expected[1])}"
    line = _spoken_of(node, what).line
    return f"{source}, line {line}: {shown + ': ' if shown else ''}{what}"


def _steps(path: str) -> list[str | int]:
    """Return the keys and numbers of a path as msgspec writes it: `.judges[0].model`."""
    return [name or int(index) for name, index in _STEP.findall(path)]


def _spoken_of(node: Node, rule: str) -> Node:
    """Return the value that a rule between keys is about: its sentence begins with the path to it."""
    for step in _steps(f".{rule.partition(' ')[0]}"):
        node = _child(node, step)
    return node


def _unknown_key(key: str, path: str, node: Node, kind: inspect.Type, source: str) -> str:
    known = list(_fields(kind))
    line = _child(node, key).line
    return f"{source}, line {line}: {joined(path, key)} is not a known key; {remedy(key, known)}"


def _wrong_value(path: str, node: Node, kind: inspect.Type, expected: str | None) -> str:
    if not path:
        found = "plain text" if isinstance(node.value, str) else _shown(node)
        return f"the file is {found}; it must be a mapping with at least name, samples and judges"
    kinds = (expected or "str").split(" | ")
    shown = f"{path} is {_shown(node)}"
    if "str" in kinds and isinstance(node.value, bool | int | float):
        return f"{shown}, which YAML does not read as text; put it in quotes"
    fallback = " or ".join(_KINDS.get(name, name) for name in kinds if name != "null")
    return f"{shown}; it must be {_advice(kind, fallback)}"


def _shown(node: Node) -> str:
    """Return what the file says there; lists and mappings only by kind, for they may be long."""
    match node.value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case tuple():
            return "a list" if node.value else "an empty list"
        case str():
            return clipped(repr(node.value))
        case _:
            return clipped(node.written)


def _follow(root: Node, steps: list[str | int], kind: inspect.Type) -> tuple[Node, inspect.Type]:
    """Return the value at the path and the type that belongs there."""
    node = root
    for step in steps:
        kind = _field(kind, step) if isinstance(step, str) else _item(kind)
        node = _child(node, step)
    return node, kind


def _child(node: Node, step: str | int) -> Node:
    children = node.value
    if isinstance(children, dict) and isinstance(step, str):
        return children.get(step, node)
    if isinstance(children, tuple) and isinstance(step, int):
        return children[step]
    return node


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    match kind:
        case inspect.Metadata():
            return _alternatives(kind.type)
        case inspect.UnionType():
            return [each for part in kind.types for each in _alternatives(part)]
        case _:
            return [kind]


def _fields(kind: inspect.Type) -> dict[str, inspect.Type]:
    structs = [each for each in _alternatives(kind) if isinstance(each, inspect.StructType)]
    return {field.name: field.type for struct in structs for field in struct.fields}


def _field(kind: inspect.Type, name: str) -> inspect.Type:
    return _fields(kind).get(name, inspect.AnyType())


def _item(kind: inspect.Type) -> inspect.Type:
    lists = [each for each in _alternatives(kind) if isinstance(each, inspect.VarTupleType)]
    return lists[0].item_type if lists else inspect.AnyType()


def _advice(kind: inspect.Type, otherwise: str) -> str:
    """Return the description of what belongs there."""
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", otherwise))
    if isinstance(kind, inspect.UnionType):
        return _advice(kind.types[0], otherwise)
    return otherwise

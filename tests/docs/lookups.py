"""Which variables of the environment are read, found in the source: look-ups in `Settings`, and the files of infra.

Only `pipeline/settings.py` may read the environment itself (ruff sees to that), so that nothing else need be searched.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ASKED = ("is_set", "key", "value", "address")  # the methods of Settings that are told a variable's name

_BY_LIBRARIES = {
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_BEDROCK",  # botocore; `_aws._endpoint` puts them together
    "GOOGLE_APPLICATION_CREDENTIALS",  # google-auth
    "DAGSTER_HOME",
}  # fmt: skip
_TOLD_ELSEWHERE = {  # look-ups whose argument is no constant: where the names stand is seen in the same file
    ("pipeline/settings.py", "name"),
    ("pipeline/operations/examining.py", "module.KEYS"),
    ("pipeline/providers/_aws.py", "name"),
    ("pipeline/providers/_aws.py", "f'AWS_ENDPOINT_URL_{service.upper()}'"),
    ("tests/infra/test_stack.py", "key"),
}
_IN_FILES = re.compile(r"\$\{([A-Z][A-Z0-9_]+)|\b(DAGSTER_[A-Z_]+)")


def variables_read(root: Path) -> set[str]:
    """Every variable that the code, its tests and its deployment read; fails where a look-up cannot be followed."""
    found: set[str] = set(_BY_LIBRARIES)
    for part in ("pipeline", "assets", "infra", "tests"):
        for path in sorted((root / part).rglob("*.py")):
            found |= _looked_up(path, path.relative_to(root).as_posix())
    for path in (root / "infra" / "compose.yaml", *(root / "infra" / "dagster").glob("*.yaml")):
        found |= {one or other for one, other in _IN_FILES.findall(path.read_text(encoding="utf-8"))}
    return found


def _looked_up(path: Path, place: str) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assigned = (node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign))
    constants = dict(pair for node in assigned for pair in _constants(node))
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation and ast.unparse(node.annotation) == "Settings":
            assert node.arg == "settings", f"{place}: call it settings, so that what is looked up in it is found"
        if isinstance(node, ast.Call):
            for argument in _names_in(node, own=not place.startswith("tests/")):
                found |= _strings(argument, constants, place)
    return found


def _constants(node: ast.Assign | ast.AnnAssign) -> Iterable[tuple[str, ast.expr]]:
    target, value = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
    if value is None:
        return []
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [(ast.unparse(name), each) for name, each in zip(target.elts, value.elts, strict=True)]
    return [(ast.unparse(target), value)]


def _names_in(call: ast.Call, *, own: bool) -> Sequence[ast.expr]:
    """The arguments of a call that name variables, none if it asks for none."""
    if not isinstance(call.func, ast.Attribute):
        return []
    called, whose = call.func.attr, ast.unparse(call.func.value)
    if own and called in ASKED and whose.endswith(("settings", "from_environment()")):
        return call.args if called in {"is_set", "key"} else call.args[:1]
    is_plain = whose in {"os.environ", "self._environment"} or (own and whose == "self" and called == "_seconds")
    return call.args[:1] if is_plain else []


def _strings(argument: ast.expr, constants: dict[str, ast.expr], place: str) -> set[str]:
    inner = argument.value if isinstance(argument, ast.Starred) else argument
    match constants.get(ast.unparse(inner), inner):
        case ast.Constant(value=str(name)):
            return {name}
        case ast.Tuple(elts=several):
            return set().union(*(_strings(each, constants, place) for each in several))
    assert (place, ast.unparse(inner)) in _TOLD_ELSEWHERE, f"{place}: which variable is {ast.unparse(inner)}?"
    return set()

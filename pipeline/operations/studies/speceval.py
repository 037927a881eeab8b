"""Importing model outputs in SpecEval's layout: a folder for each candidate, a JSON file for each policy statement.

    <folder>/<candidate>/[<time>/][results/]<statement id>.json    a list of {input_text, output_text}

A candidate is called what its folder is called, slashes and all; candidates answer the same input if its text is the
same, whatever stands where in a file. Every answer becomes a sample: contestant, the candidate; group, the statement
and the input; context, the input; criterion, the statement's words. What does not fit together is refused or reported,
never guessed.
"""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from pipeline.errors import ConfigError
from pipeline.ids import digest
from pipeline.wording import and_more, counted, remedy

_TIME = re.compile(r"\d{4}-?\d{2}-?\d{2}([T_ -]?\d{2}[-:_]?\d{2}([-:_]?\d{2})?)?|\d{10,14}")
_NOT_OUTPUTS = frozenset({"metadata", "preprocessed", "raw"})
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_SHOWN = 5


class Statement(msgspec.Struct, frozen=True):
    """A line of the specification: only what samples carry."""

    id: str
    text: str
    type: str | None = None
    authority_level: str | None = None
    section: str | None = None


class _Output(msgspec.Struct, frozen=True):
    input_text: str
    output_text: str | None = None


class SampleLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the samples file."""

    id: str
    text: str
    group: str
    contestant: str
    context: str
    criterion: str
    statement: str
    section: str | None
    authority_level: str | None


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The samples, and in sentences what a person should know about what was left out or is not there."""

    samples: tuple[SampleLine, ...]
    candidates: tuple[str, ...]
    notes: tuple[str, ...]


_statements = msgspec.json.Decoder(Statement)
_outputs = msgspec.json.Decoder(list[_Output])


def read_speceval(folder: Path, spec: Path) -> Imported:
    """Return the samples of a folder of candidates, under the statements of a specification.

    Raises:
        ConfigError: if a file cannot be read, names no statement of the specification, or contradicts another.

    """
    statements = read_statements(spec)
    answers: dict[tuple[str, str], dict[str, str]] = {}
    candidates: set[str] = set()
    empty = Counter[str]()
    for path in _files(folder):
        statement, candidate = _statement_of(path, statements), _candidate_of(path, folder)
        candidates.add(candidate)
        for output in _read_outputs(path):
            if not (output.output_text or "").strip():
                empty[candidate] += 1
                continue
            given = answers.setdefault((statement, output.input_text), {})
            _put(given, candidate, output.output_text or "", path)
    samples = tuple(_samples(answers, statements))
    notes = (
        *_folder_notes(folder),
        *_single_notes(candidates),
        *_empty_notes(empty),
        *_partial_notes(answers, candidates),
        *_unused_notes(answers, statements),
    )
    return Imported(samples=samples, candidates=tuple(sorted(candidates)), notes=notes)


def read_statements(spec: Path) -> dict[str, Statement]:
    """Return the statements of a specification by id; a line without one, or with that of another, is refused."""
    found: dict[str, Statement] = {}
    for number, line in enumerate(_bytes(spec).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            statement = _statements.decode(line)
        except _UNREADABLE as error:
            raise ConfigError(f"{spec}, line {number}: is not a statement with id and text ({error})") from error
        if not statement.id.strip() or not statement.text.strip():
            raise ConfigError(f"{spec}, line {number}: id and text may not be empty; give the statement both")
        if statement.id in found and found[statement.id] != statement:
            raise ConfigError(f"{spec}, line {number}: the id {statement.id!r} stands for two statements; rename one")
        found[statement.id] = statement
    if not found:
        raise ConfigError(f"{spec} holds no statement; give the specification as JSON lines")
    return found


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder; give the one that holds a folder for each candidate")
    found = sorted(path for path in folder.rglob("*") if not _left_out(path, folder) and _is_wanted(path))
    if not found:
        raise ConfigError(f"{folder} holds no .json file; give the folder that holds a folder for each candidate")
    return found


def _left_out(path: Path, folder: Path) -> bool:
    """Say whether the path lies in a folder of SpecEval's that holds no outputs."""
    return not _NOT_OUTPUTS.isdisjoint(path.relative_to(folder).parts[:-1])


def _is_wanted(path: Path) -> bool:
    """Say whether the path is a file of outputs; a link may lead to anything, and one to a folder is not followed."""
    is_output = path.suffix == ".json"
    if path.is_symlink() and (is_output or path.is_dir()):
        raise ConfigError(f"{path} is a symbolic link; replace it with what it points to")
    if is_output and _UNPRINTABLE.search(str(path)):
        raise ConfigError(f"{str(path)!r} has a name that cannot be printed; rename it in plain letters")
    return is_output


def _statement_of(path: Path, statements: dict[str, Statement]) -> str:
    if path.stem not in statements:
        raise ConfigError(f"{path} names no statement of the specification; {remedy(path.stem, statements)}")
    return path.stem


def _candidate_of(path: Path, folder: Path) -> str:
    """Return what the folder of a candidate is called, without the folders for times and results inside it."""
    parts = list(path.relative_to(folder).parts[:-1])
    while parts and (parts[-1] == "results" or _TIME.fullmatch(parts[-1])):
        parts.pop()
    if not parts:
        raise ConfigError(f"{path} is in no candidate's folder; put it into one named after its candidate")
    return "/".join(parts)


def _read_outputs(path: Path) -> list[_Output]:
    try:
        return _outputs.decode(_bytes(path))
    except _UNREADABLE as error:
        raise ConfigError(f"{path} is not a list of input_text and output_text ({error})") from error


def _bytes(path: Path) -> bytes:
    """Return what is in the file, without the mark that Windows sets before UTF-8; what is no file may never end."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is not a file; replace it with one, or move it elsewhere")
    try:
        return path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error


def _put(given: dict[str, str], candidate: str, answer: str, path: Path) -> None:
    """Note the candidate's answer to an input; parts of a statement from several batches add up."""
    if given.setdefault(candidate, answer) != answer:
        raise ConfigError(
            f"{path}: {candidate} answers one input in two ways; "
            "keep one of the answers, or give the candidates different names"
        )


def _samples(answers: dict[tuple[str, str], dict[str, str]], statements: dict[str, Statement]) -> Iterator[SampleLine]:
    """Yield a sample for each answer, in an order that does not depend on the order of folders or files."""
    named = {(statement, asked): f"{statement}/{digest(asked.encode())[:12]}" for statement, asked in answers}
    for (statement, asked), group in sorted(named.items(), key=lambda each: each[1]):
        rule = statements[statement]
        for candidate, text in sorted(answers[statement, asked].items()):
            yield SampleLine(
                id=f"{group}/{candidate}",
                text=text,
                group=group,
                contestant=candidate,
                context=asked,
                criterion=rule.text,
                statement=statement,
                section=rule.section,
                authority_level=rule.authority_level,
            )


def _folder_notes(folder: Path) -> Iterator[str]:
    """Yield which files were left out for the name of the folder they lie in."""
    left = [path for path in folder.rglob("*.json") if _left_out(path, folder)]
    if left:
        where = and_more(sorted({path.relative_to(folder).parent.as_posix() for path in left}), most=_SHOWN)
        why = (
            f"folders called {', '.join(sorted(_NOT_OUTPUTS))} hold no outputs; rename a candidate that has such a name"
        )
        yield f"{counted(len(left), 'file')} under {where} left out: {why}"


def _single_notes(candidates: set[str]) -> Iterator[str]:
    if len(candidates) == 1:
        yield "there is one candidate: judge it by compliance or grading; there is nothing to compare it with"


def _empty_notes(empty: Counter[str]) -> Iterator[str]:
    for candidate, count in sorted(empty.items()):
        yield f"{counted(count, 'empty answer')} of {candidate} left out"


def _partial_notes(answers: dict[tuple[str, str], dict[str, str]], candidates: set[str]) -> Iterator[str]:
    """Yield how many inputs each candidate has no answer to although another has."""
    for candidate in sorted(candidates):
        missing = [key for key, given in answers.items() if candidate not in given]
        if missing:
            where = and_more(sorted({statement for statement, _ in missing}), most=_SHOWN)
            yield f"{candidate} has no answer to {len(missing)} of {len(answers)} inputs, under {where}"


def _unused_notes(answers: Iterable[tuple[str, str]], statements: dict[str, Statement]) -> Iterator[str]:
    unused = sorted(set(statements) - {statement for statement, _ in answers})
    if unused:
        yield f"{counted(len(unused), 'statement has', 'statements have')} no answers: {and_more(unused, most=_SHOWN)}"

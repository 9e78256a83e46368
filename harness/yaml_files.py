"""YAML from outside: read safely, as it was written, and with a place for whatever is wrong.

``read_yaml`` differs from PyYAML's safe loader in three ways: a time stays the text that stands in the file
(what it means is decided by the model that reads it, which can say what is wrong with it), a key that stands
twice in one mapping is an error, and every failure is a ``SpecError`` with file and line.

Not promised: YAML 1.2. ``no`` and ``on`` are booleans here, as in every reader built on PyYAML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from servers.errors import Problem, SpecError

if TYPE_CHECKING:
    _Safe = yaml.SafeLoader
else:
    # libyaml's loader, where it is there, is ten times faster.
    _Safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"
_ODD_SCALARS = (ValueError, LookupError, AttributeError, TypeError, OverflowError)
"""What PyYAML lets through when a value does not fit its tag, as in ``!!int x`` or ``!!bool maybe``."""


def read_yaml(text: str, source: str) -> object:
    """Read one YAML document.

    Args:
        text: The document.
        source: Name of the file, for what goes wrong.

    Raises:
        SpecError: It is no YAML, a key stands twice, a value does not fit its tag, or it is nested too deep.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        raise _refusal(_words(error), source) from None
    except RecursionError:
        raise _refusal("it is nested too deep", source) from None
    except (yaml.YAMLError, ValueError) as error:
        raise _refusal(" ".join(str(error).split()), source) from None


class _Loader(_Safe):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name and shape
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in _Safe.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._checked: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Looked at before merge keys are resolved, and once: what a merge brings may be written over.
        if id(node) not in self._checked:
            self._checked.add(id(node))
            _refuse_twins(node)
        super().flatten_mapping(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: ANN401 - whatever the file holds
        try:
            return super().construct_object(node, deep=deep)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - PyYAML's stub
        except _ODD_SCALARS as error:
            tag = str(node.tag).rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"this is no {tag} ({error})", node.start_mark
            ) from None


def _refuse_twins(node: yaml.MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        name = (key.tag, key.value)
        if name in lines:
            problem = f"the key {key.value!r} stands twice in one mapping, first in line {lines[name]}"
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        lines[name] = key.start_mark.line + 1


def _words(error: yaml.MarkedYAMLError) -> str:
    parts = [str(part) for part in (error.context, error.problem) if part]
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return place + ", ".join(parts)


def _refusal(words: str, source: str) -> SpecError:
    return SpecError([Problem("no_yaml", "", f"this is no YAML that can be read: {words}")], source)

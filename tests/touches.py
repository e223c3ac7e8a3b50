"""What a piece of source does to the world outside its own memory, as far as its text tells.

Whatever comes from a module that is not known to be harmless counts, and so do the methods of paths
that change a disk and the builtins that open doors: called, or only handed on for others to call.
This finds what came in unnoticed, not what somebody hides.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HARMLESS = {
    *("__future__", "abc", "argparse", "array", "asyncio", "base64", "binascii", "bisect"),
    *("collections", "concurrent.futures", "contextlib", "contextvars", "dataclasses", "datetime"),
    *("enum", "errno", "functools", "gc", "hashlib", "heapq", "hmac", "ipaddress", "itertools"),
    *("json", "logging", "math", "operator", "os.path", "pathlib", "queue", "random", "re"),
    *("secrets", "shlex", "stat", "threading", "time", "traceback", "types", "typing"),
    *("urllib.parse", "uuid", "jinja2", "markupsafe", "prometheus_client", "psycopg", "pydantic"),
    *("sqlalchemy", "sqlmodel", "structlog", "yaml", "zstandard"),
}
"""What reaches nothing by itself."""
DOORS = {
    *("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell", "asyncio.subprocess"),
    *("asyncio.open_connection", "asyncio.open_unix_connection"),
    *("asyncio.start_server", "asyncio.start_unix_server"),
    "concurrent.futures.ProcessPoolExecutor",
    *("logging.FileHandler", "logging.basicConfig", "logging.config", "logging.handlers"),
    *("prometheus_client.push_to_gateway", "prometheus_client.start_http_server"),
    "prometheus_client.write_to_textfile",
    *("psycopg.connect", "psycopg.AsyncConnection.connect", "psycopg.Connection.connect"),
    *("sqlalchemy.create_engine", "sqlalchemy.engine.create_engine"),
    *("codehub.store.connect.connect", "codehub.store.pool.Pool", "codehub.store.schema"),
    "codehub.store.session.open_session",
}
"""What does reach something, of the modules that are harmless otherwise."""
WRITES = {
    *("chmod", "hardlink_to", "lchmod", "mkdir", "open", "rename", "replace", "rmdir"),
    *("symlink_to", "touch", "unlink", "write_bytes", "write_text"),
    *("create_connection", "create_server", "create_unix_connection", "create_unix_server"),
    *("subprocess_exec", "subprocess_shell"),
}
"""Methods of paths and of the event loop, whatever they are called on."""
BUILTINS = {"open", "exec", "eval", "compile", "__import__"}
_NOT_RUN = {"annotation", "returns"}


def touches(text: str, ours: Iterable[str] = ("codehub",)) -> set[str]:
    """Each by its full name where it was imported, else by the name of the method or builtin.

    `ours` are the hub's own modules that may be used freely: those that are looked at themselves.
    """
    nodes = _executed(text)
    names, of_text = dict(_imported(nodes)), {*_replacements_of_text(nodes)}
    harmless = HARMLESS | {*ours}
    found = (_touch(node, names, harmless) for node in nodes if node not in of_text)
    return {each for each in found if each is not None}


def reached(modules: Iterable[str]) -> set[str]:
    """These modules of the hub, and all that are imported with them."""
    found: set[str] = set()
    left = [*modules]
    while left:
        module = left.pop()
        if module in found or not _is_module(module):
            continue
        found.add(module)
        asked = _asked_for(_executed(source_of(module)))
        left += [each for each in asked if each.startswith("codehub.")]
    return found


def source_of(module: str) -> str:
    found = find_spec(module)
    assert found is not None, module
    assert found.origin is not None, module
    return Path(found.origin).read_text()


@lru_cache(maxsize=4096)
def _is_module(name: str) -> bool:
    """What is imported from a module may be one itself."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@lru_cache(maxsize=512)
def _executed(text: str) -> list[ast.AST]:
    """What runs: neither annotations nor what is for the type checker. `a.b.c` is one piece."""
    found: list[ast.AST] = []
    left: list[object] = [ast.parse(text)]
    while left:
        node = left.pop()
        if not isinstance(node, ast.AST):
            continue
        found.append(node)
        if isinstance(node, ast.Attribute) and _chain(node):
            continue
        for name, value in ast.iter_fields(node):
            if name not in _NOT_RUN and not (name == "body" and _is_for_types(node)):
                left += value if isinstance(value, list) else [value]
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and _chain(node.test) == ["TYPE_CHECKING"]


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Names, and what they stand for."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((each.asname or each.name, _full(node, each)) for each in node.names)
        elif isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.partition(".")[0]
                yield (each.asname, each.name) if each.asname else (first, first)


def _asked_for(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Every module that is imported, and every name that may be one."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(_full(node, each) for each in node.names))


def _full(node: ast.ImportFrom, name: ast.alias) -> str:
    return f"{'.' * node.level}{node.module or ''}.{name.name}"


def _replacements_of_text(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """`text.replace(old, new)` and `moment.replace(hour=0)`: a path takes one path, its target."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = {each.arg for each in node.keywords} - {"target"}
            if node.func.attr == "replace" and (len(node.args) > 1 or named):
                yield node.func


def _touch(node: ast.AST, names: Mapping[str, str], harmless: set[str]) -> str | None:
    """What this piece reaches, if it does."""
    if isinstance(node, ast.ImportFrom):
        return next((_full(node, each) for each in node.names if each.name == "*"), None)
    chain = _chain(node)
    if chain and chain[0] in names:
        full = ".".join((names[chain[0]], *chain[1:]))
        return full if _is_outside(full, harmless) or _last(node) in WRITES else None
    if isinstance(node, ast.Name):
        return node.id if node.id in BUILTINS else None
    return _last(node) if _last(node) in WRITES else None


def _chain(node: ast.AST | None) -> list[str]:
    """The parts of `a.b.c`; none of anything else."""
    if isinstance(node, ast.Name):
        return [node.id]
    before = _chain(node.value) if isinstance(node, ast.Attribute) else []
    return [*before, node.attr] if isinstance(node, ast.Attribute) and before else []


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_outside(full: str, harmless: set[str]) -> bool:
    """The longest of the names that lead there decides; a number or a word reaches nothing."""
    parts = full.split(".")
    for length in range(len(parts), 0, -1):
        start = ".".join(parts[:length])
        if start in DOORS:
            return True
        if start in harmless:
            return False
    return not _is_constant(full)


def _is_constant(full: str) -> bool:
    try:
        return isinstance(resolve_name(full), int | str)
    except (ImportError, AttributeError, ValueError):
        return False

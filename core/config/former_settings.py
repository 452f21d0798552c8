"""Settings that stood elsewhere below ``procedure`` in earlier versions: files with those are still read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from v6t.core.benchmarks import kinds
from v6t.core.config.flags import laid_over

Path = tuple[str, ...]


def moves() -> Iterator[tuple[Path, Path]]:
    """Where settings stood, and where they stand now."""
    for benchmark in kinds.installed():
        for former, now in benchmark.former_settings.items():
            yield tuple(former.split(".")), tuple(now.split("."))


def moved(document: Mapping[str, Any]) -> dict[str, Any]:
    """The settings where they stand now; what is given there already wins.

    Args:
        document: below ``procedure``, of whichever version.
    """
    values, renamed = dict(document), dict[str, Any]()
    for former, now in moves():
        above, name = former[:-1], former[-1]
        holder = _at(document, above)
        if isinstance(holder, Mapping) and name in holder:
            renamed = laid_over(renamed, _nested(now, holder[name]))
            values = _without(values, former)
    return laid_over(renamed, values)


def as_written(document: Mapping[str, Any], path: Sequence[str | int]) -> tuple[str | int, ...]:
    """Where a setting stands in what the user wrote.

    Args:
        document: below ``procedure``, as written.
        path: of the setting today.
    """
    for former, now in moves():
        if tuple(path[: len(now)]) == now and _at(document, former) is not None:
            return (*former, *path[len(now) :])
    return tuple(path)


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _nested(path: Path, value: Any) -> dict[str, Any]:
    return {path[0]: _nested(path[1:], value) if len(path) > 1 else value}


def _without(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    rest = {k: v for k, v in values.items() if k != path[0]}
    if len(path) > 1 and path[0] in values:
        rest[path[0]] = _without(values[path[0]], path[1:])
    return rest

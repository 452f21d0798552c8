"""Archives the kernel unpacks as its first file system (format newc of cpio)."""

from __future__ import annotations

import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One file, directory, link or device."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, content: bytes | str, mode: int = 0o644) -> Entry:
    return Entry(
        name, stat.S_IFREG | mode, content if isinstance(content, bytes) else content.encode()
    )


def link(name: str, target: str) -> Entry:
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def console() -> Entry:
    """Return the console, to which process 1 writes before anything is mounted."""
    return Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))


def archive(entries: list[Entry]) -> bytes:
    """Write an archive in which every directory precedes its entries; all belong to root."""
    ordered: dict[str, Entry] = {}
    for entry in entries:
        parts = entry.name.split("/")
        for depth in range(1, len(parts)):
            above = "/".join(parts[:depth])
            ordered.setdefault(above, directory(above))
        ordered[entry.name] = entry
    packed = [_packed(entry, number) for number, entry in enumerate(ordered.values(), 1)]
    return b"".join([*packed, _packed(Entry("TRAILER!!!", 0), 0)])


def _packed(entry: Entry, inode: int) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (
        inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0,
    )  # fmt: skip
    head = b"070701" + b"".join(b"%08X" % n for n in numbers) + name
    return _aligned(head) + _aligned(entry.content)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)

"""Initial RAM file systems as cpio archives (format newc)."""

import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One file, directory, link or device."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def make_directory(name: str) -> Entry:
    return Entry(name, stat.S_IFDIR | 0o755)


def make_file(name: str, content: bytes | str, mode: int = 0o644) -> Entry:
    return Entry(
        name, stat.S_IFREG | mode, content if isinstance(content, bytes) else content.encode()
    )


def make_link(name: str, target: str) -> Entry:
    return Entry(name, stat.S_IFLNK | 0o777, target.encode())


def make_console() -> Entry:
    """Return the console device; process 1 needs it before anything is mounted."""
    return Entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))


def build_archive(entries: list[Entry]) -> bytes:
    """Return an archive owned by root in which each directory precedes its entries."""
    ordered: dict[str, Entry] = {}
    for entry in entries:
        parts = entry.name.split("/")
        for depth in range(1, len(parts)):
            parent = "/".join(parts[:depth])
            ordered.setdefault(parent, make_directory(parent))
        ordered[entry.name] = entry
    packed = [_pack(entry, number) for number, entry in enumerate(ordered.values(), 1)]
    return b"".join([*packed, _pack(Entry("TRAILER!!!", 0), 0)])


def _pack(entry: Entry, inode: int) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (
        inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0,
    )  # fmt: skip
    head = b"070701" + b"".join(b"%08X" % n for n in numbers) + name
    return _pad(head) + _pad(entry.content)


def _pad(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)

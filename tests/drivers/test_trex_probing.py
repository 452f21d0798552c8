"""Single frames through TRex's ports: what is asked of its client, and which side what comes is on."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from v6t.drivers.trex import probing
from v6t.drivers.trex.kind import Trex
from v6t.plugins.siit import Siit


class Attached:
    """Stands for the server: port 3 is left, port 1 right; one frame comes on each."""

    learning = (1,)

    def __init__(self, *_: Any, **__: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.is_open = False

    def open(self) -> None:
        self.is_open = True

    def ask(self, op: str, **arguments: Any) -> Any:
        self.asked.append((op, arguments))
        return [[1, base64.b64encode(b"out").decode()], [3, base64.b64encode(b"back").decode()]]

    def close(self) -> None:
        self.is_open = False


def test_ports_are_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Attached()
    monkeypatch.setattr(probing, "Attachment", lambda *_, **__: made)
    prober = Trex({"ports": [3, 1]}).prober(Siit().links, None)
    assert made.is_open
    heard = prober.exchange([("left", b"a"), ("right", b"b")], 0.4, 0.06)
    assert heard == [("right", b"out"), ("left", b"back")]
    assert [op for op, _ in made.asked] == ["introduce", "exchange"]
    asked = made.asked[1][1]
    assert asked["frames"] == [
        [3, base64.b64encode(b"a").decode()],
        [1, base64.b64encode(b"b").decode()],
    ]
    assert asked["receive"] == [3, 1]
    prober.close()
    assert not made.is_open

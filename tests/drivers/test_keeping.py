"""Tests beside each other note what they saw, and nothing is lost of it."""

from __future__ import annotations

import threading

from v6t.tests.drivers.keeping import kept, kept_anew


def test_two_that_note_at_one_time_are_both_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("V6T_RECORD", "1")
    record = tmp_path / "record.json"

    def note(name):
        with kept_anew(record) as found:
            found[name] = "seen"

    other = threading.Thread(target=note, args=["b"])
    with kept_anew(record) as found:
        other.start()
        other.join(0.2)
        found["a"] = "seen"
    other.join()
    assert kept(record) == {"a": "seen", "b": "seen"}


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.delenv("V6T_RECORD", raising=False)
    with kept_anew(tmp_path / "record.json") as found:
        found["a"] = "seen"
    assert kept(tmp_path / "record.json") == {}
    assert not list(tmp_path.iterdir())

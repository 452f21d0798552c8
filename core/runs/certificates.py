"""Certificates of testers on this machine: where they are kept, and the one that a run quotes."""

from __future__ import annotations

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.records.certificate import SCHEMA, Certificate
from v6t.core.runs.tester_capacity import cache, tester_facts
from v6t.profiles.errors import UsageError
from v6t.profiles.files import read_json

if TYPE_CHECKING:
    from v6t.core.config.bound import BoundRun
    from v6t.core.runs.rundir import RunDir

FILE = "tester-accuracy.json"
"""In the run directory: the certificate it quotes."""


def identity(bound: BoundRun) -> str:
    """Of a tester on a machine: what a certificate holds for."""
    what = [SCHEMA, version("v6t"), tester_facts(bound)]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]


def keep(bound: BoundRun, certificate: Certificate) -> Path | None:
    """For later runs; None where it cannot be written, which is no error."""
    path = _path(bound)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(path, json.dumps(certificate.to_json(), indent=1))
    except OSError:
        return None
    return path


def kept(bound: BoundRun) -> Certificate | None:
    """The certificate for a run's tester on this machine; None if there is none."""
    if bound.tester.simulates or not bound.tester.in_lab:
        return None
    try:
        document: Any = read_json(_path(bound))
        return Certificate.model_validate(document)
    except (OSError, UsageError, ValueError):
        return None


def of_run(bound: BoundRun, directory: RunDir) -> Certificate | None:
    """The certificate a run quotes: the one it began with, also after it was resumed."""
    held = directory.read_json(FILE)
    if held is not None:
        return Certificate.model_validate(held)
    certificate = kept(bound)
    if certificate is not None:
        directory.write_json(FILE, certificate.to_json())
    return certificate


def write(path: Path, text: str) -> None:
    """Replace a file whole."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _path(bound: BoundRun) -> Path:
    return cache() / f"accuracy-{identity(bound)}.json"

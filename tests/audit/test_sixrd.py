"""The audit of a technology of another distribution: the 6rd example, without any change of v6t."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from v6t.audit.auditor import load_suites, select_clauses
from v6t.audit.clause import Clause, subject_of
from v6t.audit.packet_device.build import build_device
from v6t.audit.packet_device.relays import SixInFourDevice
from v6t.core.config.plugins import load_plugin
from v6t.plugins.base import Technology
from v6t.tests.audit.in_process import outcomes
from v6t.tests.packaging.support import lay_out

EXAMPLE = Path(__file__).parents[1] / "example_6rd"


@pytest.fixture
def technology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Technology]:
    lay_out(EXAMPLE, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield load_plugin("sixrd-br")()
    for name in ("v6t_sixrd", "v6t_sixrd_audit"):
        sys.modules.pop(name, None)


def clauses_of(technology: Technology) -> list[Clause]:
    return list(select_clauses(load_suites(()), technology).clauses)


def test_correct_6rd_relay_conforms(technology: Technology) -> None:
    found = outcomes(build_device(technology), clauses_of(technology))
    assert [o for o in found if o.judgement.verdict != "conforms"] == []
    assert {o.clause.rfc for o in found} == {"RFC 4213", "RFC 5969", "RFC 6040"}


@pytest.mark.parametrize(
    ("method", "wrong", "clauses"),
    [
        ("check_source", lambda self, outer, inner: None, {"outer-source", "inner-source"}),
        ("endpoint", lambda self, inner: self.view.remote, {"embedded"}),
        ("decrement", lambda self, packet: packet, {"outer-ttl", "encapsulated"}),
    ],
)
def test_planted_fault_of_6rd_relay_is_found(
    technology: Technology,
    method: str,
    wrong: object,
    clauses: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SixInFourDevice, method, wrong)
    found = outcomes(build_device(technology), clauses_of(technology))
    assert clauses <= {o.clause.label for o in found if o.judgement.verdict == "deviates"}


@pytest.mark.lab
def test_command_audits_the_6rd_example(tmp_path: Path) -> None:
    lay_out(EXAMPLE, tmp_path)
    words = ["audit", "--plugin", "sixrd-br", "--json", "-o", str(tmp_path / "made")]
    done = subprocess.run(
        [sys.executable, "-m", "v6t.core.cli.main", *words],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"},
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads(done.stdout)["findings"]
    assert {f["verdict"] for f in findings} == {"conforms"}


def test_subject_has_only_the_view_of_the_plugin(technology: Technology) -> None:
    assert [type(view).__name__ for view in subject_of(technology).views] == ["TunnelEnd"]

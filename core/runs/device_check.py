"""The device a testbed names, looked at before a run: for ``v6t doctor --testbed``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from v6t.base.errors import UsageError, V6tError
from v6t.core.config.bound import BoundRun
from v6t.core.config.checks import check_capabilities
from v6t.core.config.files import Flags
from v6t.core.config.resolve import driver_named, resolve_and_bind
from v6t.core.runs.bench import make_tester
from v6t.core.runs.doctor import Finding
from v6t.core.runs.dut import any_plugin
from v6t.drivers.duts.capabilities import find_capabilities
from v6t.drivers.duts.devices import make_lab_device, make_session
from v6t.drivers.duts.session.session import Session


def examine_device(testbed: Path, plugin: str | None) -> Iterator[Finding]:
    """Find what would keep a run on this testbed from starting, as far as it can be seen before.

    Nothing on the device is changed; its lock is taken while it is looked at.

    Args:
        testbed: a testbed file that is right.
        plugin: the technology; None: one that the driver can be.
    """
    try:
        flags = Flags(plugin=plugin or any_plugin(driver_named(testbed)))
        bound = resolve_and_bind(None, testbed, flags)
        check_capabilities(bound, make_tester(bound))
    except UsageError as exc:
        yield _not_for(exc, plugin)
        return
    if bound.driver.configures and not bound.driver.of_parts:
        rows = find_capabilities(bound.driver, bound.intent).rows()
        table = "; ".join(f"{row}: {text}" for row, text in rows if row != "options")
        yield Finding("driver", "ok", f"{bound.driver.name}: {table}")
    try:
        if not bound.driven:
            simulated = bound.tester.simulates
            words = "simulated" if simulated else "nobody configures it"
            yield Finding("device", "ok" if simulated or bound.tester.in_lab else "note", words)
        elif bound.tester.in_lab:
            for line in make_lab_device(bound.driver, bound.device, bound.intent).look():
                yield Finding("device", "ok", f"{line}, for the lab")
        else:
            yield from _elsewhere(bound, plugin)
    except V6tError as exc:
        yield Finding("device", "missing", _text(exc))


def _elsewhere(bound: BoundRun, plugin: str | None) -> Iterator[Finding]:
    session = make_session(bound.driver, bound.intent)
    if session is None:
        yield Finding("device", "note", "nobody configures it")
        return
    session.open()
    try:
        yield Finding("device", "ok", f"{session.name}: logged in, nobody else is at work on it")
        for name, part in session.devices():
            if isinstance(part, Session):
                yield from _seen(name, part)
        try:
            session.make_plan()
        except UsageError as exc:
            yield _not_for(exc, plugin)
            return
        words = f"can be configured as {bound.settings.plugin}"
        yield Finding("device", "ok", f"{session.name}: {words}, and its way here stays")
    finally:
        session.close()


def _not_for(exc: UsageError, plugin: str | None) -> Finding:
    """Ignore what a default technology does not allow: it is no fault of the testbed."""
    if plugin is not None:
        return Finding("device", "missing", _text(exc))
    return Finding("device", "note", f"{_text(exc)}; `--plugin NAME` says for which technology")


def _text(exc: V6tError) -> str:
    return exc.message + (f": {exc.hint}" if exc.hint else "")


def _seen(name: str, session: Session) -> Iterator[Finding]:
    """System, versions, and what is left alone on one device."""
    facts = session.survey()
    yield Finding("device", "ok", f"{name}: {facts.system}, {session.driver.name} {facts.version}")
    alone = ", ".join(f"{n} ({why})" for n, why in sorted(facts.untouchable().items()))
    if alone:
        yield Finding("device", "ok", f"{name}: not touched: {alone}")
    record = session.read_record()
    if record is not None:
        text = f"{name}: configured by {record.owner}; a run puts it back first"
        yield Finding("device", "note", text)

"""Tables of ``docs/matrix.md``: what the tests measured, with which tester and device."""

from collections.abc import Iterator

from v6t.core.config.compatibility import list_technologies
from v6t.core.config.plugins import load_technology_type
from v6t.drivers.duts.registry import list_driver_names, load_driver_type
from v6t.intent.families import DeviceConfig
from v6t.tests.drivers import machines, matrix
from v6t.tests.drivers.run_facts import FACTS
from v6t.tools.record_files import load_record

NOT_SHOWN = "not run"
STATEFUL = f"""
Each date stands for {", ".join(matrix.BENCHMARKS)} in both directions at once, except where
the cell names others. Stateful technologies are measured with {matrix.CONNECTIONS:,} connections, each of
which is validated. CE and PE are two devices in a row.
"""
IN_MACHINES = """\
## In virtual machines

Devices that need another kernel run in virtual machines. The tests record the cells; `not run` means that
no test has recorded one.

* configured: steps that the driver carried out, and steps that it read back and confirmed;
* verified by frames: frames that equal the reference translation, of all that were compared;
* measured: benchmarks that ended with a throughput above zero; emulated processors give no rates;
* restored: every step was undone, and the earlier state was read back.
"""
EVERY_DRIVER = """
## Every driver

What was run with real frames, and in which version (`executed:` of the driver). The line is about the
driver as a whole; the cells above and the page of the device tell which technologies were run.

| device | technologies | executed |
|---|---|---|"""


def render_tables() -> str:
    """Return the tables of the page."""
    cells = [
        f"| {row.words} | {' | '.join(render_cell(row, tester) for tester in matrix.TESTERS)} |"
        for row in matrix.ROWS
    ]
    head = ["| device | embedded tester | TRex |", "|---|---|---|"]
    tables = [*head, *cells, STATEFUL, IN_MACHINES, *render_machines()]
    return "\n".join([*tables, EVERY_DRIVER, *render_drivers()])


def render_drivers() -> Iterator[str]:
    """Yield every driver with its technologies, and which of them were executed."""
    for name in list_driver_names():
        kind = load_driver_type(name)
        if kind.configures_device:
            can = ", ".join((*list_technologies(name), *list_part_families(name))) or "any"
            yield f"| {name} | {can} | {kind.test_status} |"


def list_part_families(driver: str) -> tuple[str, ...]:
    """List the device families that a driver supports only within a chain."""
    intents = [load_technology_type(name)().make_dut_intent() for name in list_technologies(driver)]
    whole = [intent.configuration for intent in intents]
    return tuple(
        kind.family
        for kind in load_driver_type(driver).supported_configurations
        if kind is not DeviceConfig and not any(isinstance(each, kind) for each in whole)
    )


def render_cell(row: matrix.Row, tester: str) -> str:
    """Return when a cell was measured, and what, unless it is the usual."""
    recorded = load_record(matrix.RECORD).get(matrix.make_key(tester, row))
    texts = [recorded["date"] if recorded else NOT_SHOWN]
    texts += [", ".join(row.wanted)] * (row.wanted != matrix.BENCHMARKS)
    texts += [", ".join(row.modes)] * (row.modes != matrix.MODES[:1])
    return "; ".join(texts)


def render_machines() -> Iterator[str]:
    """Render the devices in virtual machines with their recorded results."""
    recorded = load_record(machines.RECORD)
    yield f"| device | technology | {' | '.join(FACTS)} | how | version | date |"
    yield "|---|---|" + "---|" * len(FACTS) + "---|---|---|"
    for row in machines.ROWS:
        result = recorded.get(row.name, {})
        how = result.get("how") or f"`{row.command}` would"
        facts = (result.get(fact, NOT_SHOWN) for fact in FACTS)
        cells = (*facts, how, result.get("version", ""), result.get("date", ""))
        yield f"| {row.device} | {row.technology} | {' | '.join(cells)} |"

"""Runs and campaigns for Python programs; ``import v6t`` offers these names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from v6t.analysis.csv_rows import list_figure_rows, list_trial_rows
from v6t.analysis.record import Record
from v6t.analysis.report.verdict import write_verdict
from v6t.analysis.rundata import RunData
from v6t.base.errors import UsageError
from v6t.benchmarks.registry import load_presentations
from v6t.core.campaigns.campaign import load_campaign
from v6t.core.config.resolve import resolve_setup
from v6t.core.reporting.write import FigureSelection, write_run_report
from v6t.core.runs import rundir, runner
from v6t.core.runs.events import Listener
from v6t.core.runs.results import load_run

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # values by column name
TRIALS_TABLE = "trials"  # name of the table with all trials


class TableSource(ABC):
    """Base class of runs and campaigns, which offer their results as tables."""

    @abstractmethod
    def table(self, name: str) -> list[Row]:
        """Return a table as a list of rows, each with its values by column."""

    def dataframe(self, name: str) -> pd.DataFrame:
        """Return a table as a pandas data frame.

        Raises:
            UsageError: the table does not exist.
            ImportError: pandas is not installed.
        """
        import pandas as pd

        return pd.DataFrame(self.table(name))


@dataclass(frozen=True)
class Run(TableSource):
    """Run that is stored in a directory; it may be incomplete.

    Attributes:
        path: directory of the run.
        cached_data: data of the run, if this program has measured it.
    """

    path: Path
    cached_data: RunData | None = field(default=None, repr=False, compare=False)

    @cached_property
    def data(self) -> RunData:
        """All data of the run directory."""
        return self.cached_data or load_run(self.path)

    @property
    def status(self) -> str:
        """``complete``, ``translation incorrect``, or ``running``, which includes interrupted runs."""
        return self.data.status

    @property
    def config(self) -> Mapping[str, Any]:
        """Settings of the run, as in ``config.json``."""
        return self.data.config

    @property
    def records(self) -> Sequence[Record]:
        """Results of each benchmark at each frame size and direction."""
        return self.data.records

    @property
    def warnings(self) -> list[str]:
        """Warnings about the whole run."""
        return self.data.caveats

    @property
    def throughput_summary(self) -> str:
        """One-sentence summary of the throughput; empty if none was measured."""
        return "".join(write_verdict(self.data)[:1])

    def table(self, name: str) -> list[Row]:
        """Return the results of a benchmark, or the trials, as a list of rows.

        Args:
            name: a benchmark that was measured, or ``trials``.

        Returns:
            For a benchmark one row for each figure, with the columns of ``medians.csv``; rates are per
            direction. For ``trials`` the columns of ``trials.csv``.

        Raises:
            UsageError: the run has no such table.
        """
        if name == TRIALS_TABLE:
            return [row for t in self.data.trials for row in list_trial_rows(t.request, t.result)]
        rows = [
            row
            for record in self.records
            if record.benchmark == name
            for row in list_figure_rows(record, load_presentations().find(record))
        ]
        if not rows:
            known = dict.fromkeys([*(r.benchmark for r in self.records), TRIALS_TABLE])
            problem = f"{self.path} has no table '{name}'"
            raise UsageError(problem, ", ".join(known), code="unknown-name")
        return rows

    def report(self, *formats: str, figures: FigureSelection = "few") -> list[Path]:
        """Write the report, for example ``run.report("tex", figures="pdf")``, and return its files.

        Args:
            formats: some of ``html``, ``md``, ``json``, ``junit``, ``csv``, ``openmetrics``, ``tex``.
            figures: ``none``, ``few`` (at most 40), ``all``, or ``pdf`` (all, also as PDF files).

        Raises:
            UsageError: a format or ``figures`` is unknown.
        """
        chosen = formats or ("html",)
        return write_run_report(self.path, None, chosen, figures=figures, data=self.data)


@dataclass(frozen=True)
class Campaign(TableSource):
    """Campaign that is stored in a directory."""

    path: Path

    @cached_property
    def runs(self) -> Mapping[str, Run]:
        """Started runs by directory name."""
        names = [run.directory for run in load_campaign(self.path).runs]
        return {n: Run(self.path / n) for n in names if (self.path / n / rundir.CONFIG).is_file()}

    def table(self, name: str) -> list[Row]:
        """Return a table of all runs; the column ``run`` names the run of each row."""
        return [
            {"run": directory, **row}
            for directory, run in self.runs.items()
            if name in (TRIALS_TABLE, *(record.benchmark for record in run.records))
            for row in run.table(name)
        ]


def load(directory: str | Path) -> Run | Campaign:
    """Return the run or the campaign in a directory.

    Raises:
        UsageError: the directory holds neither.
    """
    path = _to_path("directory", directory)
    if (path / "campaign.json").is_file():
        load_campaign(path)
        return Campaign(path)
    if not (path / rundir.CONFIG).is_file():
        raise rundir.make_no_run_error(path)
    return Run(path)


def run(
    technology: str | None = None,
    *,
    run_file: str | Path | None = None,
    testbed: str | Path | None = None,
    output: str | Path | None = None,
    tester: str | None = None,
    dut: str | None = None,
    preset: str | None = None,
    measure: str | Sequence[str] = (),
    frame_sizes: int | str | Sequence[int | str] = (),
    modes: str | Sequence[str] = (),
    params: Mapping[str, Any] | None = None,
    dut_options: Mapping[str, Any] | None = None,
    tester_options: Mapping[str, Any] | None = None,
    procedure: Mapping[str, Any] | None = None,
    seed: int | None = None,
    label: str | None = None,
    listener: Listener | None = None,
) -> Run:
    """Measure a technology, as ``v6t run`` does, and return the run.

    Args:
        technology: name or alias of a technology; by default, that of the run file.
        run_file, testbed: files that ``v6t init`` writes; arguments win over files.
        output: directory of the run; by default, a new one below ``runs``.
        tester, dut, preset: names of a tester, a device driver and a preset.
        measure: one or several benchmarks.
        frame_sizes: IPv6 frame sizes [octets with FCS] or mixes, one or several.
        modes: any of ``forward``, ``reverse``, ``bidirectional``.
        params: parameters of the technology, as ``--set``.
        dut_options, tester_options, procedure: as ``--set-dut``, ``--set-tester``, ``--set-procedure``.
        seed: seed of all pseudorandom numbers.
        label: text for the directory name and the results.
        listener: receives the events of the run.

    Raises:
        UsageError: an argument is invalid.
        V6tError: the run failed; finished trials stay on disk.
    """
    _check_texts(technology=technology, tester=tester, dut=dut, preset=preset, label=label)
    paths = {"run_file": run_file, "testbed": testbed, "output": output}
    run_path, testbed_path, path = (
        None if value is None else _to_path(name, value) for name, value in paths.items()
    )
    setup = resolve_setup(
        run_path,
        testbed_path,
        plugin=technology,
        params=_format_values("params", params),
        tester=tester,
        tester_options=_format_values("tester_options", tester_options),
        dut=dut,
        dut_params=_format_values("dut_options", dut_options),
        preset=preset,
        benchmarks=_to_tuple("measure", measure),
        modes=_to_tuple("modes", modes),
        frame_sizes=_to_tuple("frame_sizes", frame_sizes, Real),
        procedure=_format_values("procedure", procedure),
        seed=seed,
        label=label,
    )
    path = path or rundir.choose_default_path(setup.settings)
    setup.tester.prepare()
    return Run(path, runner.execute(setup, path, listener or Listener()))


def _check_texts(**arguments: Any) -> None:
    for name, value in arguments.items():
        if not isinstance(value, str | None):
            raise UsageError(f"{name} must be text, not {value!r}", code="not-text")


def _to_path(argument: str, value: Any) -> Path:
    if not isinstance(value, (str, PathLike)):
        raise UsageError(f"{argument} must be a path, not {value!r}", code="not-text")
    return Path(value)


def _to_tuple(argument: str, values: Any, kind: type = str) -> tuple[Any, ...]:
    """Return texts, or values of another kind, as a tuple; a single one becomes its only item."""
    is_single = isinstance(values, (str, bytes)) or not isinstance(values, Iterable)
    items = (values,) if is_single else tuple(values)
    for item in items:
        if not isinstance(item, (str, kind)):
            raise UsageError(f"{argument} contains {item!r}", code="invalid-value")
    return items


def _format_values(argument: str, values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return values formatted as command line arguments."""
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        problem = f"{argument} must be a dictionary, not {values!r}"
        raise UsageError(problem, 'for example {"name": value}', code="not-a-section")
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in values.items()
    }

"""``v6t compile``."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click
from v6t.base.errors import UsageError
from v6t.base.quantities import in_unit_of, is_bit_rate
from v6t.base.storage import write_atomically
from v6t.core.cli.options import FrameSizeOption, assignments, plugin_names
from v6t.profiles.wire import frame_rate_fps

FORMATS = ("stl-json", "stl-py", "pcap", "text")

_NO_RUN = {"connections": {"count": 1}}
"""Nothing is measured: a space of any size can be compiled, however many connections a run makes."""


@click.command(short_help="write a technology's traffic as TRex profile or capture")
@click.option("--plugin", required=True, shell_complete=plugin_names, help="Technology.")
@click.option("--set", "params", multiple=True, callback=assignments, metavar="NAME=VALUE",
              help="Plugin parameter; repeatable.")  # fmt: skip
@click.option("--testbed", type=click.Path(path_type=Path), help="Testbed file (MACs, VLANs).")
@click.option("--direction", default="forward", show_default=True, help="forward or reverse.")
@click.option(
    "--frame-size", type=FrameSizeOption(), help="IPv6 frame size, octets with FCS, or imix."
)
@click.option("--format", "kind", default="stl-json", show_default=True,
              help="stl-json, stl-py, pcap or text.")  # fmt: skip
@click.option("--count", type=int, help="Frames of a burst; without it the profile is endless.")
@click.option("--rate", "rate", default="1000", show_default=True, metavar="RATE",
              help="Frames per second of all streams together, for example 10k; or bit/s on the "
              "medium, for example 1Gbps.")  # fmt: skip
@click.option("--cores", type=int, default=1, show_default=True, help="TRex cores per port.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; default: stdout.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
def command(
    plugin: str,
    params: dict[str, str],
    testbed: Path | None,
    direction: str,
    frame_size: int | str | None,
    kind: str,
    count: int | None,
    rate: str,
    cores: int,
    seed: int,
    output: Path | None,
    force: bool,
) -> None:
    """Write what TRex would send; needs neither TRex nor root."""
    from v6t.core.config.files import Flags
    from v6t.core.config.resolve import resolve_and_bind
    from v6t.core.runs.bench import STREAM_IDS
    from v6t.profiles.compiler.compile import compile_traffic
    from v6t.profiles.export import stl

    if direction not in ("forward", "reverse"):
        raise UsageError(
            f"there is no direction '{direction}'", "forward or reverse", code="unknown-name"
        )
    if kind not in FORMATS:
        raise UsageError(f"there is no format '{kind}'", ", ".join(FORMATS), code="unknown-name")
    if count is not None and count < 1:
        raise UsageError(f"{count} frames cannot be sent", code="out-of-range")
    if cores < 1:
        raise UsageError(f"{cores} cores cannot send", code="out-of-range")
    bound = resolve_and_bind(
        None,
        testbed,
        Flags(
            plugin=plugin,
            params=params,
            frame_sizes=[] if frame_size is None else [frame_size],
            seed=seed,
            procedure=_NO_RUN,
        ),
    )
    run, made = bound.settings, bound.technology
    sizes = made.sizes_of(run.frame_sizes[0])
    rate_fps = _frame_rate(rate, sizes.longest)
    streams = compile_traffic(
        made.sized_traffic(direction, sizes, seed),
        rate_fps=rate_fps,
        frames=count,
        first_stream_id=STREAM_IDS[direction],
        cores=cores,
    )
    if kind == "pcap":
        from v6t.profiles.expand import expand_set
        from v6t.profiles.export.pcap import write_pcap

        if output is None or str(output) == "-":
            raise UsageError("a capture needs a file", "add -o FILE.pcap", code="missing-setting")
        frames = expand_set(streams, 0, count or 1000)
        try:
            written = write_pcap(output, frames, rate_fps, overwrite=force)
        except OSError as exc:
            raise UsageError(
                f"{output} cannot be written: {exc.strerror}", code="file-unwritable"
            ) from exc
        print(f"{written} frames in {output}", file=sys.stderr)
        return
    render = {
        "stl-json": stl.to_stl_json,
        "stl-py": stl.to_stl_py,
        "text": stl.explain,
    }[kind]
    text = render(streams)
    if not text.endswith("\n"):
        text += "\n"
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        return
    _write(output, text, force)
    if kind != "text":
        _warn_of_name(output)


def _warn_of_name(path: Path) -> None:
    """The file is right, but TRex is particular about names."""
    from v6t.profiles.export.stl import check_file_name

    try:
        check_file_name(path.name)
    except UsageError as exc:
        print(f"v6t: note: {exc.message}", file=sys.stderr)


def _write(path: Path, text: str, force: bool) -> None:
    """The file appears whole or not at all."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists already", "choose another name or use --force", code="file-exists"
        )
    try:
        write_atomically(path, text, private=False)
    except OSError as exc:
        raise UsageError(
            f"{path} cannot be written: {exc.strerror}", code="file-unwritable"
        ) from exc


def _frame_rate(text: str, octets: float) -> float:
    """Frames per second of a rate as somebody wrote it, for frames of so many octets."""
    try:
        if is_bit_rate(text):
            rate_fps = frame_rate_fps(float(in_unit_of("rate_bps", text)), octets)
        else:
            rate_fps = float(in_unit_of("rate_fps", text))
    except ValueError:
        rate_fps = math.nan
    if not math.isfinite(rate_fps):
        raise UsageError(
            f"a rate of '{text}' cannot be sent",
            "write for example 10000, 10k, 1Gbps",
            code="out-of-range",
        )
    return rate_fps

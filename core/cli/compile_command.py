"""``v6t compile``."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from v6t.base.errors import UsageError
from v6t.base.ethernet import frame_rate_fps, max_frame_rate_fps
from v6t.base.files import write_atomically
from v6t.base.quantities import convert_quantity, is_bit_rate
from v6t.core.cli.options import FrameSizeOption, assignments, plugin_names
from v6t.core.cli.paths import PATH
from v6t.core.cli.verbosity import verbosity_flags
from v6t.core.log import notice

if TYPE_CHECKING:
    from v6t.plugins.base import Technology

FORMATS = ("stl-json", "stl-py", "pcap", "text")

_NO_RUN = {"connections": {"count": 1}}
"""Nothing is measured: a space of any size can be compiled, however many connections a run makes."""


@click.command(short_help="write a technology's traffic as TRex profile or capture")
@click.option("--plugin", required=True, shell_complete=plugin_names, help="Technology.")
@click.option("--set", "params", multiple=True, callback=assignments, metavar="NAME=VALUE",
              help="Plugin parameter; repeatable.")  # fmt: skip
@click.option("--testbed", type=PATH, help="Testbed file (MACs, VLANs).")
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
@click.option("-o", "--output", type=PATH, help="File; default: stdout.")
@click.option("--expected", type=PATH, metavar="FILE",
              help="Also write a capture of the frames that a correct device emits for these "
              "frames, by the reference translation. A frame that a correct device drops is left "
              "out; the others keep the time stamps of the frames that caused them. Not available "
              "for stateful technologies: the device chooses their ports.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite the files.")
@verbosity_flags
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
    expected: Path | None,
    force: bool,
) -> None:
    """Write what TRex would send; needs neither TRex nor root."""
    from v6t.core.config.resolve import resolve_and_bind
    from v6t.core.config.settings import Flags
    from v6t.core.runs.bench import STREAM_IDS
    from v6t.profiles import exports
    from v6t.profiles.compiler.compile import compile_traffic

    if direction not in ("forward", "reverse"):
        raise UsageError(
            f"unknown direction '{direction}'", "forward or reverse", code="unknown-name"
        )
    if kind not in FORMATS:
        raise UsageError(
            f"unknown format '{kind}'", "one of " + ", ".join(FORMATS), code="unknown-name"
        )
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
    if expected is not None:
        _check_expected(made, expected, output)
    sizes = made.sizes_of(run.frame_sizes[0])
    rate_fps = _frame_rate(rate, sizes.longest)
    _check_rate(rate_fps, run.line_rate_bps, sizes.longest)
    streams = compile_traffic(
        made.sized_traffic(direction, sizes, seed),
        rate_fps=rate_fps,
        frames=count,
        first_stream_id=STREAM_IDS[direction],
        cores=cores,
    )
    if kind == "pcap" and (output is None or str(output) == "-"):
        raise UsageError("a capture needs a file", "add -o FILE.pcap", code="missing-setting")
    if kind == "pcap" or expected is not None:
        from v6t.profiles.expand import expand_set

        frames = list(expand_set(streams, 0, count or 1000))
    if expected is not None:
        from v6t.packets.reference import translate_frames

        _write_capture(expected, translate_frames(made, streams.direction, frames), rate_fps, force)
    if kind == "pcap" and output is not None:
        _write_capture(output, frames, rate_fps, force)
        return
    render = {
        "stl-json": exports.to_stl_json,
        "stl-py": exports.to_stl_py,
        "text": exports.explain,
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


def _check_expected(technology: Technology, expected: Path, output: Path | None) -> None:
    """Refuse an expected capture that cannot be computed or would replace the output.

    Raises:
        UsageError: the technology is stateful, or both files are the same.
    """
    if technology.stateful:
        raise UsageError(
            f"--expected is not available for {technology.name}",
            "it is stateful: what it emits depends on the addresses and ports that the device "
            "chooses; use a stateless technology",
            code="missing-reference",
        )
    if output is not None and expected.resolve() == output.resolve():
        raise UsageError(
            f"{expected} is also the output",
            "choose another name for --expected",
            code="conflicting-options",
        )


def _write_capture(
    path: Path, frames: Sequence[bytes | None], rate_fps: float, force: bool
) -> None:
    """Write a capture and print the number of its frames to standard error.

    Raises:
        UsageError: the file exists and must not be overwritten, or cannot be written.
    """
    from v6t.profiles.exports import write_pcap

    try:
        written = write_pcap(path, frames, rate_fps, overwrite=force)
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {exc.strerror}", code="file-unwritable") from exc
    print(f"{written} frames in {path}", file=sys.stderr)


def _warn_of_name(path: Path) -> None:
    """Warn of a file name that TRex does not accept."""
    from v6t.profiles.exports import check_file_name

    try:
        check_file_name(path.name)
    except UsageError as exc:
        notice(f"v6t: note: {exc.message}")


def _write(path: Path, text: str, force: bool) -> None:
    """Write a file whole or not at all."""
    if path.exists() and not force:
        raise UsageError(
            f"{path} exists already", "choose another name or use --force", code="file-exists"
        )
    try:
        write_atomically(path, text)
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {exc.strerror}", code="file-unwritable") from exc


def _check_rate(rate_fps: float, line_rate_bps: float, octets: float) -> None:
    """Reject a rate above what the line carries.

    Raises:
        UsageError: it is above.
    """
    media_fps = max_frame_rate_fps(line_rate_bps, octets)
    if rate_fps > media_fps:
        raise UsageError(
            f"{rate_fps:,.0f} frames per second are more than the {media_fps:,} that a line of "
            f"{line_rate_bps / 1e9:g} Gbit/s carries",
            "lower the rate, write bit/s as in 1Gbps, or give a testbed file with another line_rate",
            code="above-line-rate",
        )


def _frame_rate(text: str, octets: float) -> float:
    """Frames per second of a rate as somebody wrote it, for frames of so many octets."""
    try:
        if is_bit_rate(text):
            rate_fps = frame_rate_fps(float(convert_quantity("rate_bps", text)), octets)
        else:
            rate_fps = float(convert_quantity("rate_fps", text))
    except ValueError:
        rate_fps = math.nan
    if not math.isfinite(rate_fps):
        raise UsageError(
            f"'{text}' is not a rate",
            "write for example 10000, 10k, 1Gbps",
            code="not-a-number",
        )
    return rate_fps

"""``v6t compile``."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from v6t.base.errors import UsageError
from v6t.base.ethernet import compute_frame_rate_fps, compute_max_frame_rate_fps
from v6t.base.files import report_write_errors, write_atomically
from v6t.base.quantities import convert_quantity, is_bit_rate
from v6t.core.cli import options
from v6t.core.log import print_notice

if TYPE_CHECKING:
    from v6t.packets.direction import Direction
    from v6t.plugins.base import Technology

# Procedure settings; one connection suffices, because nothing is measured.
ONE_CONNECTION = {"connections": {"count": 1}}
DEFAULT_CAPTURE_FRAMES = 1000  # number of frames in a capture without ``--count``


@click.command(cls=options.Command)
@click.argument("technology_name", metavar="[TECHNOLOGY]", required=False)
@options.plugin_option
@options.parameters_option
@options.testbed_option
@click.option("--direction", type=click.Choice(["forward", "reverse"]), default="forward",
              show_default=True, help="Direction of the traffic.")  # fmt: skip
@options.frame_size_option
@click.option("--format", "output_format", type=click.Choice(["stl-json", "stl-py", "pcap", "text"]),
              default="stl-json", show_default=True, help="Format of the output.")  # fmt: skip
@click.option("--count", type=click.IntRange(1),
              help="Frames of a burst; without it the profile is endless.")  # fmt: skip
@click.option("--rate", default="1000", show_default=True, metavar="RATE",
              help="Frames per second of all streams, as 10k, or bit/s, as 1Gbps.")  # fmt: skip
@click.option("--cores", type=click.IntRange(1), default=1, show_default=True,
              help="TRex cores per port.")  # fmt: skip
@options.seed_option
@options.output_option
@options.path_option("--expected", metavar="FILE",
             text="Also write a capture of the frames that a correct device emits for these, with "
             "their time stamps; not available for stateful technologies.")  # fmt: skip
@options.flag("--overwrite", text="Replace files that exist.")
def compile_command(
    technology_name: str | None,
    testbed: Path | None,
    direction: Direction,
    frame_size: int | str | None,
    output_format: str,
    count: int | None,
    rate: str,
    cores: int,
    output: Path | None,
    expected: Path | None,
    overwrite: bool,
    **arguments: Any,
) -> None:
    """Write the traffic that TRex would send, without using TRex or root rights.

    The testbed file is read for MAC addresses, VLANs and the line rate.
    """
    from v6t.core.config.resolve import resolve_setup
    from v6t.core.runs.bench import FIRST_STREAM_IDS
    from v6t.core.runs.rundir import check_file_not_owned
    from v6t.profiles import exports
    from v6t.profiles.compiler.compile import compile_traffic

    output = None if str(output) == "-" else output
    arguments["plugin"] = options.choose_technology(technology_name, arguments["plugin"])
    if arguments["plugin"] is None:
        raise UsageError("no technology", "try: v6t compile mape-br", code="missing-setting")
    if output_format == "pcap" and output is None:
        raise UsageError("a capture needs a file", "add -o FILE.pcap", code="missing-setting")
    for path in filter(None, (output, expected)):
        check_file_not_owned(path)
        if path.exists() and not overwrite:
            hint = "choose another name or use --overwrite"
            raise UsageError(f"{path} exists already", hint, code="file-exists")
    frame_sizes = () if frame_size is None else (frame_size,)
    arguments |= {"frame_sizes": frame_sizes, "procedure": ONE_CONNECTION}
    setup = resolve_setup(None, testbed, **arguments)
    technology = setup.technology
    if expected is not None:
        _check_expected_capture(technology, expected, output)
    sizes = technology.make_sizes(setup.settings.frame_sizes[0])
    rate_fps = _parse_rate(rate, sizes.longest, setup.settings.line_rate_bps)
    traffic = technology.build_sized_traffic(direction, sizes, setup.settings.seed)
    first_id = FIRST_STREAM_IDS[direction]
    streams = compile_traffic(
        traffic, rate_fps=rate_fps, frames=count, first_stream_id=first_id, cores=cores
    )
    if technology.stateful and direction == "reverse":
        print_notice("v6t: note: a run learns the ports of this direction from the device")
    if output_format == "pcap" or expected is not None:
        from v6t.packets.reference import translate_frames
        from v6t.profiles.expand import expand_set

        frames = list(expand_set(streams, 0, count or DEFAULT_CAPTURE_FRAMES))
        if expected is not None:
            translated = translate_frames(technology, streams.direction, frames)
            _write_capture(expected, translated, rate_fps)
        if output_format == "pcap" and output is not None:
            _write_capture(output, frames, rate_fps)
            return
    render = {"stl-json": exports.to_stl_json, "stl-py": exports.to_stl_py, "text": exports.explain}
    text = render[output_format](streams).removesuffix("\n") + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    with report_write_errors(output):
        write_atomically(output, text)
    if output_format != "text":
        try:
            exports.check_file_name(output.name)
        except UsageError as exc:  # TRex does not accept it; the file can be renamed
            print_notice(f"v6t: note: {exc.message}")


def _check_expected_capture(technology: Technology, expected: Path, output: Path | None) -> None:
    if technology.stateful:
        problem = f"--expected is not available for {technology.name}, which is stateful"
        hint = "the device chooses addresses and ports; use a stateless technology"
        raise UsageError(problem, hint, code="missing-reference")
    if output is not None and expected.resolve() == output.resolve():
        problem = f"{expected} is also the output"
        raise UsageError(problem, "choose another name for --expected", code="conflicting-options")


def _write_capture(path: Path, frames: Sequence[bytes | None], rate_fps: float) -> None:
    from v6t.profiles.exports import write_pcap

    with report_write_errors(path):
        count = write_pcap(path, frames, rate_fps, overwrite=True)
    print(f"{count} frames in {path}", file=sys.stderr)


def _parse_rate(text: str, frame_octets: float, line_rate_bps: float) -> float:
    """Convert a rate given in frames/s or bit/s to frames/s.

    Raises:
        UsageError: the text is not a rate, or the line does not carry it.
    """
    try:
        if is_bit_rate(text):
            rate_bps = float(convert_quantity("rate_bps", text))
            rate_fps = compute_frame_rate_fps(rate_bps, frame_octets)
        else:
            rate_fps = float(convert_quantity("rate_fps", text))
    except ValueError:
        rate_fps = math.nan
    if not math.isfinite(rate_fps):
        hint = "write for example 10000, 10k, 1Gbps"
        raise UsageError(f"'{text}' is not a rate", hint, code="not-a-number")
    media_fps = compute_max_frame_rate_fps(line_rate_bps, frame_octets)
    if rate_fps > media_fps:
        limit = f"the {media_fps:,} that a line of {line_rate_bps / 1e9:g} Gbit/s carries"
        hint = "lower the rate, write bit/s as in 1Gbps, or set another line_rate in a testbed file"
        problem = f"{rate_fps:,.0f} frames per second are more than {limit}"
        raise UsageError(problem, hint, code="above-line-rate")
    return rate_fps

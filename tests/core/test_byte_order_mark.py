"""Files with a byte order mark, as written by editors on Windows."""

import pytest
from v6t.base.files import read_json, read_text
from v6t.core.campaigns import file as campaign_file
from v6t.core.config.resolve import resolve_setup
from v6t.core.config.yaml_file import YamlFile
from v6t.core.migrate.maptperf import read_maptperf
from v6t.core.migrate.siitperf import read_siitperf

from .test_campaign import SMALL

MARK = b"\xef\xbb\xbf"


def _write(path, text):
    path.write_bytes(MARK + text.replace("\n", "\r\n").encode())
    return path


def test_run_and_testbed_with_a_mark_are_read(tmp_path):
    run = _write(tmp_path / "run.yaml", "plugin: mape-br\nseed: 7\n")
    bed = _write(tmp_path / "bed.yaml", "line_rate: 1G\n")
    settings = resolve_setup(run, bed).settings
    assert (settings.plugin, settings.seed, settings.line_rate_bps) == ("mape-br", 7, 1e9)


def test_campaign_with_a_mark_is_read(tmp_path):
    path = _write(tmp_path / "campaign.yaml", SMALL)
    content, runs = campaign_file.read_campaign(YamlFile(path))
    assert content.title == "A small campaign"
    assert runs


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_siitperf, "IP-L-Vers 6\nIP-R-Vers 4\n"), (read_maptperf, "NUM-OF-CEs 1000\n")],
)
def test_siitperf_file_with_byte_order_mark_is_read(tmp_path, read, text):
    found = read(_write(tmp_path / "other.conf", text))
    assert len(found.parameter_targets) == len(text.splitlines())
    assert not any(what.startswith("not known") for _, what in found.parameter_targets)


def test_text_and_json_lose_the_mark(tmp_path):
    path = _write(tmp_path / "x.json", '{"a": 1}')
    assert read_text(path) == '{"a": 1}'
    assert read_json(path) == {"a": 1}

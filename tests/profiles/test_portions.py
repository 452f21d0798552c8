"""Streams that begin later: judged by the expander."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from v6t.core.config.bound import bind
from v6t.core.config.resolve import Flags, resolve
from v6t.core.runs.bench import compile_point
from v6t.profiles.compiler.compile import compile_traffic
from v6t.profiles.expand import Expander
from v6t.profiles.rows import with_rows
from v6t.profiles.streams import start_at_frame

from .test_export_trex import traffics

pytestmark = pytest.mark.slow

RUN = resolve(flags=Flags(plugin="mape-br", params={"ces": "5000"}))
PLUGIN = bind(RUN).technology
ENUMERATING = {
    name: compile_traffic(traffics()[name], frames=1000).streams[0] for name in ("neutral", "wide")
}
ENUMERATING["rows"] = with_rows(
    compile_point(PLUGIN, PLUGIN.frame_pair(104), 7)["forward"], 300
).streams[0]


@pytest.mark.parametrize("name", ENUMERATING)
@given(first=st.integers(0, 1 << 20), count=st.integers(1, 300))
def test_stream_that_starts_later_goes_on_from_there(name, first, count):
    stream = ENUMERATING[name]
    later = Expander(start_at_frame(stream, first)).frames(0, count)
    assert np.array_equal(later, Expander(stream).frames(first, count))

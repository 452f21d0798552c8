"""Many commands in one round trip: what each said, and how it ended."""

from __future__ import annotations

from v6t.drivers.duts.session.shell import HEADING, Section, build_batch_script, parse_sections

from .support import run_shell


def ran(commands, limit=None):
    done = run_shell(build_batch_script(commands), check=False)
    return parse_sections(done.stdout[:limit])


def test_text_and_status_of_each():
    found = ran({"one": "echo a; echo b", "two": "echo c; exit 3", "three": "false | cat"})
    assert found == {"one": Section("a\nb", 0), "two": Section("c", 3), "three": Section("", 0)}


def test_output_without_a_last_newline_and_empty_lines():
    assert ran({"x": "printf 'a\\n\\nb'"})["x"] == Section("a\n\nb", 0)


def test_no_command_waits_for_input_or_ends_the_others():
    found = ran({"reads": "cat", "exits": "exit 1", "after": "echo still"})
    assert [found[name].status for name in found] == [0, 1, 0]
    assert found["after"].text == "still"


def test_errors_are_not_output():
    assert ran({"x": "echo no >&2; echo yes"})["x"].text == "yes"


def test_an_answer_that_breaks_off_has_no_status():
    whole = build_batch_script({"a": "echo 1", "b": "echo 2"})
    out = run_shell(whole, check=False).stdout
    cut = out[: out.rindex(HEADING)]
    found = parse_sections(cut)
    assert found["a"] == Section("1", 0)
    assert found["b"].status is None
    assert "b" not in parse_sections(out[: out.index(f"{HEADING} b")])

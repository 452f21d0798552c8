"""Error codes: every error has a documented code, and validation preserves it."""

import ast
import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError, field_validator
from v6t.base import validation
from v6t.base.error_codes import ERROR_CODES
from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import StrictModel
from v6t.base.validation import make_setting_error
from v6t.core.cli.main import CLICK_ERROR_CODES
from v6t.drivers.options import parse_options
from v6t.drivers.trex.options import TrexOptions

CHECKOUT = Path(__file__).parents[2]
FOLDERS = (
    "audit", "base", "trials", "intent", "packets", "profiles", "plugins", "procedures", "drivers",
    "analysis", "benchmarks", "core", "tools",
)  # fmt: skip
COMPUTED_CODES = {
    "unknown-command", "internal-error", "system-error", "disk-full", "resource-missing",
    "invalid-value", *CLICK_ERROR_CODES.values(), *(code for code, *_ in validation._PROBLEMS.values()),
}  # fmt: skip


def get_name(node):
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def is_click(node):
    return getattr(getattr(node, "value", None), "id", "") == "click"


def find_error_calls():
    """Yield path and call of each error constructed in the product."""
    nodes = [
        (path, node)
        for folder in FOLDERS
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call | ast.ClassDef)
    ]
    classes = [node for _, node in nodes if isinstance(node, ast.ClassDef)]
    names, size = {"V6tError"}, 0
    while len(names) > size:
        size = len(names)
        names |= {
            c.name for c in classes if {get_name(b) for b in c.bases if not is_click(b)} & names
        }
    names |= {"InvalidValue", "error_at"}
    for path, node in nodes:
        if not isinstance(node, ast.Call) or is_click(node.func):
            continue
        # plugins have a plain exception named like one of these
        if get_name(node.func) in names - ({"Refused"} if "plugins" in path.parts else set()):
            yield path, node


def test_errors_have_documented_codes_and_codes_are_used():
    used = set(COMPUTED_CODES)
    for path, node in find_error_calls():
        values = [k.value for k in node.keywords if k.arg == "code"]
        assert len(values) == 1, f"{path}:{node.lineno}: no code"
        if isinstance(values[0], ast.Constant):
            used.add(values[0].value)
        else:  # a parameter, or the code of an error that is raised again
            assert get_name(values[0]) == "code", f"{path}:{node.lineno}"
    assert used == set(ERROR_CODES)


def test_error_without_code_is_rejected():
    with pytest.raises(TypeError):
        UsageError("message")


def test_error_survives_pickling():
    error = pickle.loads(pickle.dumps(UsageError("m", "h", code="conflict", path=("a", 1))))  # noqa: S301
    assert (error.message, error.hint, error.code, error.path) == ("m", "h", "conflict", ("a", 1))
    assert error.args == ("m",)


class Sample(StrictModel):
    """Settings."""

    number: int = 1
    even: int = 2
    silent: int = 0

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise InvalidValue("it must be even", "add 1", code="out-of-range")
        return value

    @field_validator("silent")
    @classmethod
    def _reject(cls, value):
        raise ValueError


@pytest.mark.parametrize(("values", "code", "path", "hint"), [
    ({"number": "x"}, "not-a-number", ("number",), ""),
    ({"number": True}, "not-a-number", ("number",), ""),
    ({"numbr": 1}, "unknown-setting", ("numbr",), "did you mean 'number'?"),
    ({"even": 3}, "out-of-range", ("even",), "add 1"),
    ({"silent": 3}, "invalid-value", ("silent",), ""),
])  # fmt: skip
def test_rejected_model_has_code_path_and_hint(values, code, path, hint):
    with pytest.raises(ValidationError) as error:
        Sample.model_validate(values)
    problem = make_setting_error(Sample, error.value)
    assert (problem.code, problem.path, problem.hint) == (code, path, hint)
    assert path[0] in problem.message


def test_contradicting_settings_have_both_paths():
    with pytest.raises(UsageError) as caught:
        parse_options(TrexOptions, "trex", "tester", {"cache": 5, "rows": 5, "counting": "ports"})
    assert (caught.value.code, caught.value.path) == ("conflict", ("cache",))
    assert caught.value.related == (("rows",),)

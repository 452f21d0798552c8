"""Error codes: every construction has one, every one is used, and validation keeps them."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError, field_validator
from v6t.base import complaints
from v6t.base.complaints import complaint
from v6t.base.error_codes import ERROR_CODES
from v6t.base.errors import InvalidValue, UsageError
from v6t.base.strict_model import StrictModel
from v6t.core.cli.main import CLICK_CODES
from v6t.drivers.options import options_of
from v6t.drivers.trex.options import TrexOptions
from v6t.tests.core.support import v6t

CHECKOUT = Path(__file__).parents[2]
FOLDERS = (
    "audit",
    *(
        "base",
        "trials",
        "intent",
        "packets",
        "profiles",
        "plugins",
        "procedures",
        "drivers",
        "analysis",
        "benchmarks",
        "core",
        "tools",
    ),
)
PLAIN = ("Refused",)
"""Names that a plain exception of another folder has, too."""


def trees():
    return [
        (path, ast.parse(path.read_text(encoding="utf-8")))
        for folder in FOLDERS
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
    ]


def name_of(node):
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def error_classes(parsed):
    """Names of all classes that inherit from V6tError."""
    names, before = {"V6tError"}, set()
    while names != before:
        before = set(names)
        names |= {
            node.name
            for _, tree in parsed
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and {name_of(b) for b in node.bases} & names
            if not any(getattr(b, "value", None) and b.value.id == "click" for b in node.bases)
        }
    return names | {"InvalidValue"}


def constructions(parsed):
    names = error_classes(parsed) | {"error_at"}
    for path, tree in parsed:
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or name_of(node.func) not in names:
                continue
            foreign = getattr(getattr(node.func, "value", None), "id", "") == "click"
            if not foreign and not ("plugins" in path.parts and name_of(node.func) in PLAIN):
                yield path, node


def test_every_error_has_a_known_code_and_every_code_is_used():
    parsed = trees()
    used = {*CLICK_CODES.values(), *complaints._CODES.values()}
    used |= {
        "unknown-command",
        "internal-error",
        "system-error",
        "disk-full",
        "resource-missing",
        "invalid-value",
    }
    for path, node in constructions(parsed):
        values = [k.value for k in node.keywords if k.arg == "code"]
        assert len(values) == 1, f"{path}:{node.lineno}: no code"
        (value,) = values
        if isinstance(value, ast.Constant):
            assert value.value in ERROR_CODES, f"{path}:{node.lineno}: {value.value}"
            used.add(value.value)
        else:  # passed on, or the code of an error that is raised again
            name = value.id if isinstance(value, ast.Name) else getattr(value, "attr", "")
            assert name == "code", f"{path}:{node.lineno}"
    assert used == set(ERROR_CODES)


def test_error_without_a_code_cannot_be_made():
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

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise InvalidValue("it must be even", "add 1", code="out-of-range")
        return value


@pytest.mark.parametrize(
    ("values", "code", "path"),
    [
        ({"number": "x"}, "not-a-number", ("number",)),
        ({"numbr": 1}, "unknown-setting", ("numbr",)),
        ({"even": 3}, "out-of-range", ("even",)),
    ],
)
def test_rejected_model_has_code_and_path(values, code, path):
    with pytest.raises(ValidationError) as error:
        Sample.model_validate(values)
    found = complaint(Sample, error.value)
    assert (found.code, found.path) == (code, path)


def test_hint_of_a_validator_is_kept():
    with pytest.raises(ValidationError) as error:
        Sample.model_validate({"even": 3})
    assert complaint(Sample, error.value).hint == "add 1"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nope"], "unknown-command"),
        (["run", "--nope"], "unknown-option"),
        (["run", "--plugin", "mapee"], "unknown-name"),
    ],
)
def test_command_prints_the_code(arguments, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = v6t(*arguments)
    assert (done.status, done.code) == (2, code)


def test_empty_error_of_a_validator_has_a_message():
    class Settings(StrictModel):
        size: int = 0

        @field_validator("size")
        @classmethod
        def _reject(cls, value):
            raise ValueError

    with pytest.raises(ValidationError) as caught:
        Settings(size=3)
    found = complaint(Settings, caught.value)
    assert (found.reason, found.hint, found.code) == ("is invalid (3 given)", "", "invalid-value")


def test_contradiction_of_two_settings_has_both_paths():
    with pytest.raises(UsageError) as caught:
        options_of(TrexOptions, "trex", "tester", {"cache": 5, "rows": 5, "counting": "ports"})
    assert (caught.value.code, caught.value.path) == ("conflict", ("cache",))
    assert caught.value.related == (("rows",),)

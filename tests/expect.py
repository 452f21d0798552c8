"""Expect an error with a code, which this process raises or a command prints."""

import contextlib
import re

import pytest
from pydantic import BaseModel, ValidationError
from v6t.base.error_codes import ERROR_CODES
from v6t.base.errors import InvalidValue, V6tError
from v6t.base.validation import make_setting_error


@contextlib.contextmanager
def expect_error(code, *, path=None, mentions="", hint="", kind=V6tError):
    """Expect an error with a code and, optionally, with the path of a setting.

    Args:
        code: code of the error, or of the problem that pydantic reports.
        path: keys and indices of the setting, from the top of the file.
        mentions: a name or number that the message must contain as a word.
        hint: an option or a command that the hint must contain.
        kind: class of the error; V6tError includes errors of validators and of pydantic.
    """
    with pytest.raises(
        (V6tError, InvalidValue, ValidationError) if kind is V6tError else kind
    ) as error:
        yield error
    found = error.value
    is_rejection = isinstance(found, ValidationError)
    actual = make_setting_error(BaseModel, found).code if is_rejection else found.code
    assert actual == code, f"{actual}: {found!r}"
    if path is not None:
        assert found.path == tuple(path)
    if mentions:
        assert re.search(rf"(?<!\w){re.escape(mentions)}(?!\w)", str(found))
    if hint:
        assert hint in found.hint


def expect_refusal(done, code=None, status=2):
    """Expect that a command printed only an error of at most two lines, and return its text.

    Args:
        code: code of the error, or None for any code.
    """
    assert (done.status, done.out) == (status, ""), done
    assert done.code == code if code else done.code in ERROR_CODES, done
    lines = done.err.splitlines()
    assert 1 <= len(lines) <= 2, done.err
    assert re.match("v6t: .", lines[0])
    assert all(line.startswith("     ") for line in lines[1:])
    assert done.code != "internal-error", done.err
    return done.err

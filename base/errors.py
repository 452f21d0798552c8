"""The errors that every folder may raise, each with a code.

    V6tError
    ├── UsageError          exit 2: a file, flag, rule or frame size is wrong
    │   └── ExtensionError          an added plugin, driver, tester or benchmark is broken
    ├── EnvironmentLacking  exit 3: permission, kernel feature or program is missing
    ├── DutError            exit 4: the device under test cannot be driven
    ├── TesterError         exit 5: the tester itself failed
    │   └── BeyondTester            one benchmark asks for more than it can; others do not
    └── TranslationError    exit 6: the device answers, but not with the right frames

A message is one sentence that says what is wrong; ``hint`` says what to do about it. ``code`` is the kind of
error, stable across versions and described in :mod:`v6t.base.error_codes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class V6tError(Exception):
    """Base class of errors that the command line shows in one or two lines, with an exit status.

    Attributes:
        message: the problem in one sentence.
        hint: what to do about it; may be empty.
        code: the kind of error, one of :data:`v6t.base.error_codes.ERROR_CODES`.
        path: keys and indices from the top of the user's file to the wrong setting.
        related: the paths of further settings that contradict it.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        code: str,
        path: Sequence[str | int] = (),
        related: Sequence[Sequence[str | int]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.path = tuple(path)
        self.related = tuple(map(tuple, related))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without calling the constructor, whose keywords pickle does not know."""
        return _restore, (type(self), self.args), self.__dict__

    def advise(self, words: str) -> None:
        """Say something further to do, behind what is said already."""
        self.hint = "; ".join(filter(None, (self.hint, words)))


def _restore(kind: type[V6tError], arguments: tuple[Any, ...]) -> V6tError:
    return kind.__new__(kind, *arguments)


class InvalidValue(ValueError):
    """A validator of a pydantic model rejects a value; code and hint survive in the complaint.

    Attributes:
        settings: names of fields, in the validator of a model: those that contradict each other.
    """

    def __init__(
        self, message: str, hint: str = "", *, code: str, settings: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code
        self.settings = tuple(settings)


def interrupted(error: BaseException | None) -> bool:
    """Whether an error came in the place of a Ctrl-C that was on its way: the work is to end all the same.

    So it is where something cannot be put back on that way: who goes on after an error of one run or one
    configuration has lost the Ctrl-C.
    """
    seen: list[BaseException] = []
    left = [error]
    while left:
        each = left.pop()
        if isinstance(each, KeyboardInterrupt):
            return True
        if each is not None and each not in seen:
            seen.append(each)
            left += [each.__cause__, each.__context__]
    return False


class UsageError(V6tError):
    """What the user gave cannot be used as it is.

    Attributes:
        params: of the technology, with which it could be used.
        dut_params: of the device's driver, likewise.
        located: the message begins with file and line.
        technology: one that the device of another driver can be; empty: another driver is no remedy.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        code: str,
        params: Mapping[str, object] | None = None,
        dut_params: Mapping[str, object] | None = None,
        path: Sequence[str | int] = (),
        related: Sequence[Sequence[str | int]] = (),
        located: bool = False,
        technology: str = "",
    ) -> None:
        super().__init__(message, hint, code=code, path=path, related=related)
        self.params = dict(params or {})
        self.dut_params = dict(dut_params or {})
        self.located = located
        self.technology = technology


class ExtensionError(UsageError):
    """What another distribution adds to v6t cannot be loaded, or fails by itself."""


class EnvironmentLacking(V6tError):
    """This machine lacks a permission, a kernel feature or a program."""

    exit_code = 3


class DutError(V6tError):
    """The device under test could not be configured, read or restored."""

    exit_code = 4


class TesterError(V6tError):
    """The tester itself failed; nothing is said about the device."""

    exit_code = 5
    __test__ = False  # its name is no test's


class BeyondTester(TesterError):
    """A trial asks for more than this tester can give: its benchmark is not measured, others are."""


class TranslationError(V6tError):
    """The device forwards frames that differ from the reference translation."""

    exit_code = 6

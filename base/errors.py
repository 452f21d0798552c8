"""The errors that every folder may raise, each with a code.

V6tError
├── UsageError          exit 2: a file, flag, rule or frame size is wrong
│   └── ExtensionError          an added plugin, driver, tester or benchmark is broken
├── EnvironmentLacking  exit 3: permission, kernel feature or program is missing
├── DutError            exit 4: the device under test cannot be driven
├── TesterError         exit 5: the tester itself failed
│   └── BeyondTester            one benchmark exceeds its abilities; others can go on
└── TranslationError    exit 6: the device does not translate or answer correctly
"""

import copyreg
from collections.abc import Mapping, Sequence
from typing import Any


class V6tError(Exception):
    """Base class of errors that the command line shows in one or two lines, with an exit status."""

    exit_code = 1

    def __init__(
        self,
        message: str,  # the problem in one sentence
        hint: str = "",  # what to do about it; may be empty
        *,
        code: str,  # the kind of error, one of :data:`v6t.base.error_codes.ERROR_CODES`
        path: Sequence[str | int] = (),  # from the top of the user's file to the wrong setting
        related: Sequence[Sequence[str | int]] = (),  # paths of settings that contradict it
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code
        self.path, self.related = tuple(path), tuple(map(tuple, related))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle without calling the constructor, because pickle passes no keywords."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def add_hint(self, hint: str) -> None:
        """Append to the hint."""
        self.hint = "; ".join(filter(None, (self.hint, hint)))


class InvalidValue(ValueError):
    """Rejection of a value by a validator of a pydantic model, with code and hint.

    ``settings`` names the fields that contradict each other, in the validator of a model.
    """

    def __init__(
        self, message: str, hint: str = "", *, code: str, settings: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message, self.hint, self.code, self.settings = message, hint, code, tuple(settings)


class UsageError(V6tError):
    """An unusable file, setting or argument of the user."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        code: str,
        params: Mapping[str, object] | None = None,  # of the technology, with which it is usable
        dut_params: Mapping[str, object] | None = None,  # of the driver, with which it is usable
        located: bool = False,  # the message begins with file and line
        technology: str = "",  # that the device of another driver could run; may be empty
        **paths: Any,
    ) -> None:
        super().__init__(message, hint, code=code, **paths)
        self.params, self.dut_params = dict(params or {}), dict(dut_params or {})
        self.located, self.technology = located, technology


class ExtensionError(UsageError):
    """An extension of another distribution cannot be loaded, or fails."""


class EnvironmentLacking(V6tError):
    """This machine lacks a permission, a kernel feature or a program."""

    exit_code = 3


class DutError(V6tError):
    """The device under test could not be configured, read or restored."""

    exit_code = 4


class TesterError(V6tError):
    """The tester itself failed, which proves nothing about the device."""

    exit_code = 5
    __test__ = False  # pytest collects classes named Test...


class BeyondTester(TesterError):
    """A trial exceeds the abilities of this tester; other benchmarks go on."""


class TranslationError(V6tError):
    """The device forwards frames that differ from the reference translation."""

    exit_code = 6


def hides_interrupt(error: BaseException | None) -> bool:
    """Return whether an error replaced a Ctrl-C, after which the program must end all the same."""
    seen: list[BaseException] = []
    pending = [error]
    while pending:
        each = pending.pop()
        if each is not None and each not in seen:
            seen.append(each)
            pending += [each.__cause__, each.__context__]
    return any(isinstance(each, KeyboardInterrupt) for each in seen)

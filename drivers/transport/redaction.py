"""Removal of secrets from text that is logged or printed."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from v6t.base.errors import DutError

HIDDEN = "********"
SHORTEST_SECRET = 4
"""Characters; a shorter value is hidden only where a keyword such as ``password`` precedes it."""
LOGIN_PASSWORD, ENABLE_PASSWORD = "V6T_DUT_PASSWORD", "V6T_DUT_ENABLE_PASSWORD"

_WORD = (
    r"(?:password|passwd|passphrase|secret|community|psk|(?:pre-?)?shared-?key|key-string"
    r"|auth(?:entication)?-?key|private-?key)"
)
_FORM = (
    r"(?:(?:\d{1,2}|sha\d+|md5|hash|cipher|encrypted|plain(?:-?text)?|clear(?:-?text)?|simple|ascii-text"
    r"|hexadecimal|0)[ \t]+)?"
)
"""How a command line says in which form a secret follows, as in ``secret 5 $1$...``."""
_VALUE = r"""(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s"']\S*)"""
_NAMES = (
    rf"(?<![a-z0-9])[\w-]{{0,40}}{_WORD}(?:-value|-hash)?[\"']?(?:[ \t]*[:=][ \t]*|[ \t]+)",
    r"\b(?:tacacs|radius)[^\n]{0,80}?\bkey[ \t]+",
    r"\bauth[ \t]+(?:md5|sha\S*)[ \t]+",
    r"\bpriv[ \t]+(?:des|3des|aes)(?:[ \t-]+\d+)?[ \t]+",
    r"\bcom2sec\w*[ \t]+\S+[ \t]+\S+[ \t]+",
    r"\bsnmp(?:get|getnext|walk|bulkget|bulkwalk|set|status|table)[ \t][^\n|;&]{0,200}?-[cAX][ \t]*",
)
_KEYWORDS = ("pass", "secret", "community", "psk", "key", "auth", "priv", "com2sec", "snmp")
"""Every match contains one; most texts do not, which is quickly found."""
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(-----END|\Z)", re.DOTALL)
_ASKS_SECRET = re.compile(r"passw|passphrase|secret|passcode|community|\bpin\b", re.IGNORECASE)

_ASKED = ("password", "enter password", "passphrase", "enter passphrase", "secret", "community")
_QUESTIONS = tuple(
    f"{form(word)}{end}"
    for word in _ASKED
    for form in (str.lower, str.capitalize, str.upper)
    for end in (":", ": ", "? ")
)

_ENVIRONMENT = re.compile(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_secrets: set[str] = set()


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    """Return patterns of a keyword and the secret after it, compiled at the first use."""
    return tuple(re.compile(rf"{name}{_FORM}{_VALUE}", re.IGNORECASE) for name in _NAMES)


def asks_secret(question: str) -> bool:
    """Return whether the answer to a question, or the value of a setting, is a secret."""
    return _ASKS_SECRET.search(question) is not None


def expects_secret(pattern: str) -> bool:
    """Return whether a regular expression matches a question that asks for a secret."""
    return any(re.search(pattern, question) for question in _QUESTIONS)


def register_secret(value: str) -> None:
    """Redact a value from now on; see :func:`redact`."""
    if len(value) >= SHORTEST_SECRET:
        _secrets.add(value)


def has_environment_reference(text: str) -> bool:
    """Return whether a text contains a reference ``{env:NAME}`` to an environment variable."""
    return _ENVIRONMENT.search(text) is not None


def fill_in_environment(text: str) -> tuple[str, list[str]]:
    """Replace ``{env:NAME}`` by the variables' values, redacted from now on; return text and values."""
    values = []
    for name in _ENVIRONMENT.findall(text):
        if not (value := os.environ.get(name, "")):
            problem = f"the environment variable {name} is not set"
            raise DutError(problem, f"export {name} and repeat the command", code="missing-setting")
        register_secret(value)
        values.append(value)
        text = text.replace(f"{{env:{name}}}", value)
    return text, values


def register_secrets(options: Mapping[str, Any]) -> None:
    """Redact passwords, keys, answers to secret prompts and words after a secret's keyword."""
    for name, text in _list_texts(options, ""):
        if asks_secret(name):
            register_secret(text)
        for pattern in _compile_patterns():
            for setting in pattern.finditer(text):
                for value in (setting["value"].strip("\"'"), setting["value"].strip("\"';,")):
                    register_secret(value)


def redact_values(text: str) -> str:
    """Replace registered secrets only, so that prose with the word ``password`` stays readable."""
    environment = (os.environ.get(name, "") for name in (LOGIN_PASSWORD, ENABLE_PASSWORD))
    known = {*_secrets, *(value for value in environment if value)}
    forms = {form for value in known for form in _list_forms(value)}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, HIDDEN)
    return text


def redact(text: str) -> str:
    """Replace registered secrets, and values that follow a keyword such as ``password``."""
    text = _PRIVATE_KEY.sub(rf"\1\n{HIDDEN}\n\2", redact_values(text))
    lower = text.lower()  # the patterns also ignore the case of letters beyond ASCII
    if text.isascii() and not any(keyword in lower for keyword in _KEYWORDS):
        return text
    for pattern in _compile_patterns():
        text = pattern.sub(_hide_value, text)
    return text


def redact_json(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets; ``name`` is the key of the value."""
    if isinstance(value, str):
        return HIDDEN if value and asks_secret(name) else redact(value)
    if isinstance(value, Mapping):
        return {key: redact_json(part, key) for key, part in value.items()}
    return [redact_json(part, name) for part in value] if isinstance(value, list) else value


def shorten_command(command: str) -> str:
    """Return the begin of a command for a message; a secret that is cut could not be found later."""
    return redact(command)[:160]


def _hide_value(setting: re.Match[str]) -> str:
    return setting[0][: setting.start("value") - setting.start()] + HIDDEN


def _list_forms(value: str) -> Iterator[str]:
    """Yield a secret in plain form and as JSON, each also quoted for a shell."""
    for form in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield form
        yield form.replace("'", "'\"'\"'")


def _list_texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _list_texts(part, str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for part in value:
            yield from _list_texts(part, name)

"""Flags of the command line that settings ask for: v6t's own, and those of added benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import click

UNUSED = "v6t.settings_flags.unused"
"""In a context's ``meta``: what was typed has none of these flags."""
BEHIND = "label"
"""The option that they follow where all are listed."""


class Measuring(click.Command):
    """A command with :func:`v6t.core.cli.options.run_flags`, and a flag for each setting that asks for one.

    Which there are only the benchmarks know, and to import them all is half of what a start costs: they
    are asked when such a flag is used, or all are listed. What was said of settings is the parameter
    ``settings``, texts by flag.
    """

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """As click's; with the flags of settings where they may matter."""
        own = super().get_params(ctx)
        if ctx.meta.get(UNUSED):
            return own
        cut = [param.name for param in own].index(BEHIND) + 1
        return [*own[:cut], *self._options, *own[cut:]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's."""
        own = {name for param in super().get_params(ctx) for name in _names(param)}
        used = {word.partition("=")[0] for word in args if word.startswith("--")}
        listed = ctx.resilient_parsing or not {*used, *args}.isdisjoint(ctx.help_option_names)
        ctx.meta[UNUSED] = used <= own and not listed
        rest = super().parse_args(ctx, args)
        said = {}
        for param in () if ctx.meta[UNUSED] else self._options:
            text = ctx.params.pop(param.name or "", None)
            if text is not None:
                said[param.opts[0]] = text
        ctx.params["settings"] = said
        return rest

    @cached_property
    def _options(self) -> Sequence[click.Option]:
        """The help is that of the first setting a flag stands for."""
        from v6t.base.strict_model import describe_fields
        from v6t.base.text import convert_docstring
        from v6t.benchmarks import registry
        from v6t.benchmarks.settings import flags_in
        from v6t.core.config.settings import ProcedureSettings

        models: dict[str, Any] = {"": ProcedureSettings, **registry.sections()}
        asked = {flag: [name] for flag, name in flags_in(ProcedureSettings)} | registry.flags()
        taken = {name for param in self.params for name in _names(param)}
        found = []
        for flag, settings in asked.items():
            section, _, name = settings[0].rpartition(".")
            if flag not in taken:
                text = convert_docstring(describe_fields(models[section])[name])
                found.append(click.Option([flag], metavar="VALUE", help=text))
        return found


def _names(param: click.Parameter) -> tuple[str, ...]:
    return (*param.opts, *param.secondary_opts)

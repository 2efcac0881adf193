"""`opentinker envs` and `opentinker protocols`: what there is, a line each."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from opentinker.errors import ConfigError
from opentinker.flow import EnvFacts
from opentinker.registry import (
    env_ids,
    env_module,
    make_env,
    protocol_builder,
    protocol_ids,
)
from opentinker.wrappers.families import FAMILIES, Family

Row = tuple[str, str, str, str]


def tables_of_envs() -> Iterator[Table]:
    """The envs with a name of their own, then the families of other libraries."""
    named = _table("env", "seats", "kind", "what")
    for id in env_ids():
        _add(named, _env(id))
    yield named
    families = _table("family", "envs", "needs", "what")
    for family in FAMILIES:
        _add(families, _family(family))
    yield families


def table_of_protocols() -> Table:
    """The protocols by name, with their options."""
    table = _table("protocol", "options", "what")
    for id in protocol_ids():
        build = protocol_builder(id)
        takes = inspect.signature(build).parameters.values()
        options = [each.name for each in takes if each.kind is each.KEYWORD_ONLY]
        what = _first_line(inspect.getdoc(inspect.getmodule(build)))
        _add(table, (id, ", ".join(options), what))
    return table


def _env(id: str) -> Row:
    what = _first_line(env_module(id).__doc__)
    try:
        facts = EnvFacts.of(make_env(id))
    except ConfigError as error:  # it takes options, or a library that is not installed
        return id, "?", "?", f"{what} As it stands: {error}"
    kind = "turn-based" if facts.turn_based else "simultaneous"
    return id, str(len(facts.seats)), kind, what


def _family(family: Family) -> Row:
    try:
        count = str(len(list(family.names())))
        needs = "installed"
    except ConfigError:
        count, needs = "-", f"pip install 'opentinker[{family.extra}]'"
    return f"{family.prefix}{family.name}", count, needs, family.what


def _table(*columns: str) -> Table:
    table = Table(title_justify="left", pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    return table


def _add(table: Table, row: tuple[str, ...]) -> None:
    table.add_row(*map(Text, row))  # as texts: rich would read `opentinker[classic]` as markup


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]

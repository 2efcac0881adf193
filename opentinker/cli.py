"""The command line: run an experiment, read its transcripts, export what it learned."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from opentinker.errors import ConfigError, OpenTinkerError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Simulate and train several language-model agents at once.",
)
console = Console()
errors = Console(stderr=True)

INTERRUPTED = 130
"""The exit code of a shell's command that Ctrl-C ended."""

Runs = Annotated[Path, typer.Option("--runs", help="The folder that holds the runs.")]

Options = Annotated[
    list[str] | None, typer.Option("--options", help="An option of the factory: key=value.")
]


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="An experiment.toml.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key: train.updates=20.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with this run from its newest checkpoint.")
    ] = None,
    runs: Runs = Path("runs"),
) -> None:
    """Run an experiment, and what it comes after, to the end."""
    from opentinker.console import RichWatcher
    from opentinker.recorder import runs_folder
    from opentinker.scheduler.jobs import run_experiment

    watcher = RichWatcher(console)
    try:
        done = run_experiment(experiment, set_ or (), runs_folder(runs), watcher, resume)
    finally:
        watcher.close()
    console.print(f"done: {done.folder}", highlight=False)


@app.command()
def transcripts(
    run: Annotated[str, typer.Argument(help="A run: its folder, or its name under --runs.")],
    episode: Annotated[str | None, typer.Option(help="Only this episode, by id.")] = None,
    step: Annotated[int | None, typer.Option(help="Only this step; the last by default.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 3,
    runs: Runs = Path("runs"),
) -> None:
    """Show episodes to read."""
    from opentinker.recorder import Run
    from opentinker.rollout.transcript import lines

    found = list(Run.open(runs, run).episodes())
    if not found:
        raise ConfigError(f"the run {run!r} has no recorded episodes yet")
    if episode is not None:
        wanted = episode.zfill(7) if episode.isdigit() else episode
        chosen = [pair for pair in found if pair[1].request.id == wanted]
        if not chosen:
            ids = [e.request.id for _, e in found]
            raise ConfigError(
                f"no episode {episode!r} is recorded; there are {ids[0]} to {ids[-1]}"
            )
    else:
        last = found[-1][0] if step is None else step
        chosen = [pair for pair in found if pair[0] == last][:count]
        if not chosen:
            steps = sorted({number for number, _ in found})
            raise ConfigError(
                f"no episodes of step {step}; there are steps {steps[0]} to {steps[-1]}"
            )
    for number, each in chosen:
        title = f"step {number}, episode {each.request.id}: {each.env}, {each.outcome}"
        console.print(Panel(Text("\n".join(lines(each))), title=title, title_align="left"))


@app.command()
def export(
    run: Annotated[str, typer.Argument(help="A run: its folder, or its name under --runs.")],
    policy: Annotated[str, typer.Option(help="The policy to write.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where; RUN/export/POLICY by default, RUN/export/POLICY-merged."),
    ] = None,
    step: Annotated[int | None, typer.Option(help="Of this checkpoint; the newest.")] = None,
    best: Annotated[bool, typer.Option("--best", help="Of the best checkpoint.")] = False,
    merged: Annotated[
        bool, typer.Option("--merged", help="An adapter as a whole model, merged into its base.")
    ] = False,
    runs: Runs = Path("runs"),
) -> None:
    """Write a policy for others to load: a PEFT folder, or a whole model's."""
    from opentinker.recorder import Run
    from opentinker.scheduler.exports import export_run

    found = Run.open(runs, run)
    folder, base = export_run(found, policy, out, step=step, best=best, merged=merged)
    console.print(f"written: {folder}", highlight=False, soft_wrap=True)
    if base is not None:
        console.print(f"its base model: {base}", highlight=False, soft_wrap=True)


@app.command()
def protocol(
    name: Annotated[str, typer.Argument(help="A protocol's name.")],
    env: Annotated[
        str, typer.Option(help="The env whose seats it is built for.")
    ] = "kuhn_poker_v0",
    draw: Annotated[bool, typer.Option("--draw", help="Draw the graph as Mermaid text.")] = False,
    png: Annotated[Path | None, typer.Option(help="Draw it into this PNG file.")] = None,
) -> None:
    """Check a protocol against an env, and draw it."""
    from opentinker.protocol import EnvFacts
    from opentinker.registry import make_env, make_protocol

    facts = EnvFacts.of(make_env(env))
    graph = make_protocol(name, facts.seats)
    graph.check(facts)
    if png is not None:
        graph.draw_png(png)
        console.print(f"drawn: {png}", highlight=False)
    if draw:
        console.print(graph.draw("mermaid"), highlight=False, markup=False)
    elif png is None:
        for stage in graph.stages.values():
            console.print(f"{stage.name}: {', '.join(stage.seats)} {stage.kind}", markup=False)


@app.command()
def envs() -> None:
    """List the envs: those with a name of their own, and the families of other libraries."""
    from opentinker.commands.listing import tables_of_envs

    for table in tables_of_envs():
        console.print(table)


@app.command()
def protocols() -> None:
    """List the protocols and their options."""
    from opentinker.commands.listing import table_of_protocols

    console.print(table_of_protocols())


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="A file.py, module:factory, or a name.")],
    env: Annotated[
        str | None, typer.Option(help="The env in which an agent or a protocol is tried.")
    ] = None,
    options: Options = None,
) -> None:
    """Say in words what is wrong with an env, an agent or a protocol; exit 1 if anything is."""
    from opentinker.commands.checking import verdicts

    found = list(verdicts(name, env, _table(options)))
    for verdict in found:
        note = f" ({verdict.note})" if verdict.note else ""
        state = ("wrong", "red") if verdict.faults else ("sound", "green")
        console.print(Text.assemble(f"{verdict.what}: ", state, note), soft_wrap=True)
        for fault in verdict.faults:
            console.print(f"- {fault}", highlight=False, markup=False, soft_wrap=True)
    if any(verdict.faults for verdict in found):
        raise typer.Exit(1)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="A new folder, or an empty one.")]) -> None:
    """Lay a project: an env, an agent, a protocol, an experiment, all of them working."""
    from opentinker.commands.starting import lay

    for path in lay(folder):
        console.print(f"written: {path}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"next: cd {folder}; its README.md says how to go on", soft_wrap=True)


@app.command()
def play(
    env: Annotated[str, typer.Argument(help="An env: a name, a file.py, or module:factory.")],
    seat: Annotated[str | None, typer.Option("--as", help="Your seat; the first one.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="AGENT, or SEAT=AGENT: a name, a file.py, 'equilibrium', RUN:POLICY (a policy of "
            "a run's newest checkpoint), or a TOML table such as "
            "{kind = 'scripted', lines = ['[bet]']}; random by default."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the game.")] = 0,
    protocol: Annotated[
        str | None,
        typer.Option(help="Who is asked when: follow_env, or as the policy's run was trained."),
    ] = None,
    options: Options = None,
    runs: Runs = Path("runs"),
) -> None:
    """Play an env yourself; Ctrl-D leaves, with exit code 1.

    A trained policy reads what it was trained on: where its run's env is the one that is played,
    that run's protocol and env options hold, unless --protocol or --options say otherwise.
    """
    from opentinker.commands import playing
    from opentinker.recorder import runs_folder

    try:
        playing.play(
            console,
            env,
            seat,
            against or (),
            seed=seed,
            protocol=protocol,
            options=_table(options),
            runs=runs_folder(runs),
        )
    except (EOFError, KeyboardInterrupt):
        console.print("\nyou left; the game is not finished")
        raise typer.Exit(1) from None


def _table(given: list[str] | None) -> dict[str, Any]:
    from opentinker.config import set_key

    table: dict[str, Any] = {}
    for text in given or ():
        set_key(table, text, "--options")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; gives its exit code: 2 for what can't run as asked, 1 for a failure."""
    # A supervisor's SIGTERM ends a run as Ctrl-C does: with its processes, and a status.
    signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    try:
        code = app(args=arguments, standalone_mode=False)
    except ConfigError as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 2
    except OpenTinkerError as error:
        errors.print(f"error: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        shown = getattr(error, "show", None)
        if shown is None:  # not one of the command line's own usage errors
            raise
        shown()
        return int(getattr(error, "exit_code", 2))
    if code == INTERRUPTED:  # as typer gives back a Ctrl-C
        errors.print("interrupted; the run's status.json says how far it came")
    return code if isinstance(code, int) else 0


def entry() -> None:
    """What the `opentinker` command calls."""
    sys.exit(main())

"""Puts the commands together, and turns whatever ends them into one line and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer

from formatkit.cli import changes, doctor, files, maintenance, new_format, tables, tck, validate
from formatkit.cli.terminal import OutputError, checked_output
from formatkit.errors import ContractViolationError, FormatkitError, InternalError, printable, without_secrets

__all__ = ["main", "run"]

USER_ERROR = 2
UNEXPECTED = 1
INTERRUPTED = 130
# What a shell reports for a program that a closed pipe ended.
BROKEN_PIPE = 141

app = typer.Typer(
    name="formatkit",
    help="Read and write Apache Iceberg tables, whatever the format of their files.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(files.formats)
app.command()(files.inspect)
app.command()(tables.scan)
app.command()(tables.explain)
app.command()(tables.count)
app.command()(validate.validate)
app.command()(changes.append)
app.command()(changes.delete)
app.command()(maintenance.rewrite)
app.command()(maintenance.clean_orphans)
app.command()(new_format.new_format)
app.command()(tck.tck)
app.command()(doctor.doctor)


@dataclass
class Invocation:
    """What was said before the command's name."""

    debug: bool = False


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Read and write Apache Iceberg tables, whatever the format of their files."""
    context.obj.debug = debug
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"formatkit {version_of('formatkit')}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line of this process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code: 0, 1 for a fault of a program, 2 for something the user can mend."""
    invocation = Invocation()
    try:
        with checked_output():
            code = app(args=list(arguments), prog_name="formatkit", standalone_mode=False, obj=invocation)
    except OutputError as error:
        if error.is_closed:
            return BROKEN_PIPE
        return _fail(f"the output cannot be written: {error}; free space, or send it elsewhere", USER_ERROR, invocation)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = "formatkit" if context is None else context.command_path
        return _fail(f"{error.format_message()} Try: {command} --help", USER_ERROR)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", INTERRUPTED)
    except FormatkitError as error:
        fault = isinstance(error, InternalError | ContractViolationError)
        return _fail(error.message, UNEXPECTED if fault else USER_ERROR, invocation)
    except Exception as error:  # noqa: BLE001 - whatever it is, its user reads one line
        hint = "" if invocation.debug else " (formatkit --debug … shows where)"
        return _fail(f"unexpected {type(error).__name__}: {error}{hint}", UNEXPECTED, invocation)
    if code == INTERRUPTED:  # typer turns the exception into its code
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int, invocation: Invocation | None = None) -> int:
    lines = []
    if invocation is not None and invocation.debug:
        # Errors of other libraries are in it, which hide nothing.
        shown = without_secrets(traceback.format_exc())
        lines.append("\n".join(map(printable, shown.split("\n"))))
    lines.append(f"formatkit: {printable(' '.join(without_secrets(message).split()))}")
    # Where nobody can be told, the exit code says it all.
    with suppress(OSError):
        print(*lines, sep="\n", file=sys.stderr, flush=True)  # noqa: T201
    return code

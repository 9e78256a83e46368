"""The command line: one root that joins what the packages bring.

The table below is all that is loaded for ``coworkenv --help``; a package's commands are imported when one of
them is called. This file and nothing else may import across the packages' one-way rule.

Errors that this project raises on purpose, and extras that are not installed, end with a message on standard
error and exit code 2; Ctrl-C ends with 130.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import cast

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("synth.cli:demo", "See everything once: synthesize, certify, run, report. A minute, no key."),
    "synth": ("synth.cli:synth", "Write and certify environments from a seed."),
    "certify": ("synth.cli:certify", "Prove the graders of a pack or of a hand-written environment."),
    "import": ("synth.cli:importing", "Turn tasks of a public benchmark into environments."),
    "serve": ("harness.commands:serve", "Serve a workplace over MCP, for any agent."),
    "run": ("harness.commands:run", "Run agents through environments; the same command resumes."),
    "grade": ("harness.commands:grade", "Grade a run again, by replaying it."),
    "report": ("harness.commands:report", "Show a run: a table here, and one HTML file."),
    "env": ("harness.commands:env", "Look at environments: list, show, check, schema."),
    "train": ("training.cli:train", "Train a student: fetch a model, SFT, GRPO, a recipe that shows what it does."),
}

EXTRAS = {
    "litellm": "models",
    "torch": "train",
    "transformers": "train",
    "trl": "train",
    "datasets": "train",
    "accelerate": "train",
    "gguf": "train",
    "matplotlib": "train",
    "vllm": "vllm",
}
"""Which extra brings a module that a plain installation lacks."""


class Refusal(click.ClickException):
    """Ends a command with a message and exit code 2."""

    exit_code = 2


class Root(click.Group):
    """Lists commands from the table and loads one when it is called."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; what the project raises on purpose becomes a message."""
        from servers.errors import CoworkEnvError  # noqa: PLC0415 - kept out of the time that --help takes

        try:
            return super().invoke(ctx)
        except CoworkEnvError as error:
            raise Refusal(str(error)) from error
        except ModuleNotFoundError as error:
            extra = EXTRAS.get((error.name or "").split(".")[0])
            if extra is None:
                raise
            from harness.invocation import install  # noqa: PLC0415 - as above

            raise Refusal(f"this needs {error.name}, which is not installed. Run: {install(extra)}") from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load the command of this name.

        Raises:
            click.UsageError: There is no such command.
        """
        from servers.errors import suggest  # noqa: PLC0415 - as above

        if cmd_name not in COMMANDS:
            raise click.UsageError(f"there is no command {cmd_name!r}. {suggest(cmd_name, COMMANDS)}", ctx)
        module, attribute = COMMANDS[cmd_name][0].split(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without loading any package."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=Root, epilog="Begin with: coworkenv demo", context_settings={"max_content_width": 110})
@click.version_option(package_name="coworkenv")
def root() -> None:
    """CoworkEnv: mock workplaces for AI coworkers.

    Spin one up, run agents through it, train on what they did.
    """


def main() -> None:
    """Entry point of ``coworkenv``."""
    try:
        result = root.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone, as with `| head`; Python must not try to flush the rest at its end.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the null device, until we exit
        sys.exit(1)
    sys.exit(result if isinstance(result, int) else 0)

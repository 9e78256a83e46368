"""The command line: one root that joins what the packages bring.

The table below is all that is loaded for ``coworkenv --help``; a package's commands are imported when one of them is called. This file and nothing
else may import across the packages' one-way rule.

Errors that this project raises on purpose end with a message on standard error and exit code 2; Ctrl-C ends with 130.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("synth.cli:demo", "See everything once: synthesize, certify, run, report. Under a minute, no key."),
    "synth": ("synth.cli:synth", "Write and certify environments from a seed."),
    "certify": ("synth.cli:certify", "Prove the graders of a pack or of a hand-written environment."),
    "import": ("synth.cli:importing", "Turn tasks of a public benchmark into environments."),
    "serve": ("harness.commands:serve", "Serve a workplace over MCP, for any agent."),
    "run": ("harness.commands:run", "Run agents through environments; the same command resumes."),
    "grade": ("harness.commands:grade", "Grade a run again, by replaying it."),
    "report": ("harness.commands:report", "Show a run: a table here, and one HTML file."),
    "env": ("harness.commands:env", "Look at environments: list, show, check, schema."),
    "train": ("training.cli:train", "Train a student: fetch a model, SFT, GRPO, evaluate."),
}


class Root(click.Group):
    """Lists commands from the table and loads one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All commands, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load the command of this name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry[0].split(":")
        return cast("click.Command", getattr(import_module(module), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list without loading any package."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=Root, epilog="Begin with: coworkenv demo", context_settings={"max_content_width": 110})
@click.version_option(package_name="coworkenv")
def root() -> None:
    """CoworkEnv: mock workplaces for AI coworkers. Spin one up, run agents through it, train on what they did."""


def main() -> None:
    """Entry point of ``coworkenv``."""
    from servers.errors import CoworkEnvError  # noqa: PLC0415 - kept out of the time that --help takes

    try:
        result = root.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except CoworkEnvError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    sys.exit(result if isinstance(result, int) else 0)

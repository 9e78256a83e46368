"""The same environment, agent and seed give the same bytes in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio

from harness.agents.scripted import oracle, read_only
from harness.episode import run_episode
from synth.families import FAMILIES

ROOT = Path(__file__).parents[2]


async def script() -> str:
    """Play one environment of every family; everything that came of it, as text."""
    lines: list[str] = []
    for family in FAMILIES:
        environment = family.make("determinism", family.levels)
        lines += [environment.digest, environment.image.digest, environment.image.data.hex()]
        for agent in (oracle(), read_only()):
            trajectory = await run_episode(environment, agent, trial=1, seed=5)
            assert trajectory.journal, "a trajectory holds the journal"
            lines.append(trajectory.model_dump_json(by_alias=True))
    return "\n".join(lines)


def in_a_process(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT), "TZ": f"UTC-{hash_seed}"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.test_determinism"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
        timeout=100,
    )
    return done.stdout


def test_two_processes_with_different_hash_seeds_write_the_same_bytes() -> None:
    first, second = in_a_process("1"), in_a_process("2")
    assert first.count("\n") == 5 * len(FAMILIES)
    for one, other in zip(first.splitlines(), second.splitlines(), strict=True):
        assert one == other


def test_playing_again_in_the_same_process_writes_the_same_bytes() -> None:
    assert anyio.run(script) == anyio.run(script)


if __name__ == "__main__":
    print(anyio.run(script))

"""Reinforcement learning with TRL's ``GRPOTrainer`` on whole episodes.

Each prompt of a batch is an environment; a group of rollouts plays it at the same time on one in-process engine, with simulated users and changing
workplaces, and comes back as rows of exactly the ids that were sampled (``training.ledger``): ``env_mask`` is 1 where the student spoke. An
episode that broke carries reward None and is left out of its group's baseline; it is never a 0.

``EpisodeTrainer`` adds two things to TRL's trainer: the rollout function, and the importance ratio between the engine's log
probabilities and the trainer's own. In one process the two agree, so the ratio is 1.000; a test holds that, and it is the proof that the sampled
ids are the trained ids. It leans on attributes that TRL 1.16 has and later versions may not, hence the pin in ``pyproject.toml``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import anyio
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import GRPOConfig, GRPOTrainer

from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import Trajectory
from training.agent import Sampling, StudentAgent, StudentSession
from training.chat import ChatFormat
from training.engine_transformers import TransformersEngine
from training.sft import OnStep, StepCallback, save

KEY = "environment"
"""Where a prompt carries the id of its environment."""


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """How to train."""

    steps: int = 10
    environments: int = 2
    """Different environments in one optimizer step."""
    group: int = 4
    """Rollouts of each."""
    learning_rate: float = 2e-6
    temperature: float = 1.0
    new_tokens: int = 96
    context: int = 1024
    reward: Literal["total", "passed"] = "total"
    seed: int = 0
    micro_batch: int = 2
    """Rows in one forward pass."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode as the trainer takes it."""

    prompt_ids: list[int]
    completion_ids: list[int]
    env_mask: list[int]
    logprobs: list[float]
    reward: float | None
    """None: something of ours broke, so the episode says nothing about the student."""


Play = Callable[[Sequence[Environment], Sequence[int]], list[Rollout]]


class EpisodeTrainer(GRPOTrainer):
    """GRPO whose completions are episodes."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        environments: Sequence[Environment],
        chat: ChatFormat,
        settings: GrpoSettings,
        out: Path,
        *,
        on_step: OnStep = lambda step, logs: None,
    ) -> None:
        self.by_id = {environment.id: environment for environment in environments}
        self.chat = chat
        self.settings = settings
        self.engine = TransformersEngine(model, slots=settings.environments * settings.group)
        self.played = 0
        super().__init__(
            model=cast("Any", model),
            reward_funcs=[reward_of_episode],
            args=_arguments(settings, out, on_cpu=model.device.type == "cpu"),
            train_dataset=Dataset.from_list([_prompt(environment) for environment in environments]),
            processing_class=tokenizer,
            rollout_func=_rollout,
            callbacks=[StepCallback(on_step)],
        )
        # The engine samples with the trainer's own weights, so nothing has to be synchronized; what is wanted of this branch of
        # TRL is that it compares the engine's log probabilities with its own and corrects for the difference.
        self.use_vllm = True
        self.vllm_generation = cast("Any", _InProcess())
        self._last_loaded_step = -1


def train_grpo(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    environments: Sequence[Environment],
    chat: ChatFormat,
    out: Path,
    settings: GrpoSettings,
    *,
    on_step: OnStep = lambda step, logs: None,
) -> list[Mapping[str, float]]:
    """Train ``model`` in place on episodes in ``environments``, save it in ``out``, and give what was logged per step."""
    trainer = EpisodeTrainer(model, tokenizer, environments, chat, settings, out, on_step=on_step)
    trainer.train()
    save(model, tokenizer, out)
    return [entry for entry in trainer.state.log_history if "reward" in entry]


def reward_of_episode(reward: list[float | None], **rest: object) -> list[float | None]:  # noqa: ARG001 - TRL's signature
    """The rewards that the rollout brought along."""
    return reward


def _rollout(prompts: Sequence[Sequence[Mapping[str, Any]]], trainer: GRPOTrainer) -> dict[str, list[Any]]:
    """TRL's hook: play the episode of each prompt (they come with their repetitions) and give rows in that order."""
    owner = cast("EpisodeTrainer", trainer)
    environments = [owner.by_id[prompt[-1][KEY]] for prompt in prompts]
    rollouts = anyio.run(_play, owner, environments)
    owner.played += len(rollouts)
    return {
        "prompt_ids": [one.prompt_ids for one in rollouts],
        "completion_ids": [one.completion_ids for one in rollouts],
        "env_mask": [one.env_mask for one in rollouts],
        "logprobs": [one.logprobs for one in rollouts],
        "reward": [one.reward for one in rollouts],
    }


async def _play(trainer: EpisodeTrainer, environments: Sequence[Environment]) -> list[Rollout]:
    settings = trainer.settings
    sampling = Sampling(settings.temperature, settings.new_tokens, settings.context)
    rollouts: list[Rollout | None] = [None] * len(environments)
    first = trainer.played

    async def play(index: int) -> None:
        sessions: list[StudentSession] = []
        agent = StudentAgent("student", trainer.engine, trainer.chat, sampling, sessions)
        seed = settings.seed * 1_000_003 + first + index
        trajectory = await run_episode(environments[index], agent, trial=index, seed=seed)
        rollouts[index] = rollout_of(trajectory, sessions[0] if sessions else None, settings.reward, trainer.chat)

    async with trainer.engine.serving(), anyio.create_task_group() as tasks:
        for index in range(len(environments)):
            tasks.start_soon(play, index)
    return [one for one in rollouts if one is not None]


def rollout_of(
    trajectory: Trajectory, session: StudentSession | None, reward: Literal["total", "passed"], chat: ChatFormat
) -> Rollout:
    """Turn an episode into a row.

    An episode without a sampled token still needs a row of its shape: one masked end-of-turn id, and no reward unless it was the
    student's own failure.
    """
    score = trajectory.score
    value = None if score is None else (score.total if reward == "total" else float(score.passed))
    if session is None or not session.ledger.turns:
        stop = min(chat.stop_ids)
        return Rollout([stop], [stop], [0], [0.0], value)
    row = session.ledger.to_rollout()
    return Rollout(row.prompt_ids, row.completion_ids, row.env_mask, row.logprobs, value)


class _InProcess:
    """Stands where TRL keeps a vLLM client: the engine reads the trainer's weights directly."""

    def sync_weights(self) -> None:
        """There is nothing to copy."""


def _prompt(environment: Environment) -> dict[str, Any]:
    # Only the prompt reaches a rollout function, and keys of its messages beyond role and content survive.
    return {"prompt": [{"role": "user", "content": environment.request, KEY: environment.id}]}


def _arguments(settings: GrpoSettings, out: Path, *, on_cpu: bool) -> GRPOConfig:
    rows = settings.environments * settings.group
    return GRPOConfig(
        output_dir=str(out / "trainer"),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=rows // settings.micro_batch,
        num_generations=settings.group,
        max_completion_length=settings.context,
        temperature=settings.temperature,
        top_p=1.0,
        top_k=0,
        repetition_penalty=1.0,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        beta=0.0,
        # Summed over a long episode, tiny differences would mask all of it; each token has its own ratio instead.
        vllm_importance_sampling_mode="token_truncate",
        mask_truncated_completions=False,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=on_cpu,
        seed=settings.seed,
        data_seed=settings.seed,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )

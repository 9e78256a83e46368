"""Reinforcement learning with TRL's ``GRPOTrainer`` on whole episodes.

Each prompt of a batch is an environment; a group of rollouts plays it at the same time on one in-process
engine, with simulated users and changing workplaces, and comes back as rows of exactly the ids that were
sampled (``training.ledger``): ``env_mask`` is 1 where the student spoke. An episode that broke carries reward
None and is left out of its group's baseline; it is never a 0. When every episode of a step broke, training
stops: nothing in one process repairs itself.

``EpisodeTrainer`` adds two things to TRL's trainer: the rollout function, and the importance ratio between
the engine's log probabilities and the trainer's own. In one process the two agree, so the ratio is 1.000; a
test holds that, and it is the proof that the sampled ids are the trained ids. It leans on attributes that TRL
1.16 has and later versions may not, hence the pin in ``pyproject.toml``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import anyio
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from harness.environment import Environment
from harness.episode import run_episode
from harness.trajectory import Trajectory
from training.agent import Sampling, StudentAgent, StudentSession
from training.chat import ChatFormat
from training.demonstrations import check_fit
from training.engine_transformers import TransformersEngine
from training.errors import EngineError, SettingsError
from training.models import context_of
from training.output import Logs, workshop
from training.quiet import quiet_libraries
from training.trainer import OnStep, StepCallback, arguments, dataset, optimize, silent

KEY = "environment"
"""Where a prompt carries the id of its environment."""
RATIO = "sampling/importance_sampling_ratio/mean"
"""Name in the logs: trainer's over engine's probability of a sampled token, mean over a step."""
BROKEN = "episodes/broken"
"""Name in the logs: episodes of a step without a reward."""

RewardKind = Literal["total", "passed"]


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    """How to train.

    Raises:
        SettingsError: A number is out of range, or rows cannot be divided into micro batches.
    """

    steps: int = 10
    environments: int = 2
    """Different environments in one optimizer step."""
    group: int = 4
    """Rollouts of each."""
    learning_rate: float = 2e-6
    temperature: float = 1.0
    new_tokens: int = 96
    """Most ids in one turn."""
    context: int = 1024
    """Most ids in one episode, prompt included."""
    reward: RewardKind = "total"
    seed: int = 0
    micro_batch: int = 1
    """Rows in one forward pass: on a GPU as many as fit, on a CPU more than one gain nothing."""

    def __post_init__(self) -> None:
        counts = (self.steps, self.environments, self.new_tokens, self.micro_batch)
        if min(counts) < 1 or self.group < 2 or self.context < 2:
            raise SettingsError(
                f"steps, environments, new_tokens and micro_batch have to be at least 1, group and context 2; "
                f"got {asdict(self)}"
            )
        if self.temperature <= 0 or self.learning_rate <= 0:
            raise SettingsError(
                f"temperature ({self.temperature:g}) and learning_rate ({self.learning_rate:g}) have to be "
                "above 0: greedy rollouts of a group are all alike and teach nothing"
            )
        if self.rows % self.micro_batch:
            raise SettingsError(
                f"{self.environments} environments x {self.group} rollouts are {self.rows} rows, which do not "
                f"divide into micro batches of {self.micro_batch}. Use a micro_batch of {self._divisor()}"
            )

    @property
    def rows(self) -> int:
        """Episodes in one optimizer step."""
        return self.environments * self.group

    def _divisor(self) -> int:
        return max(size for size in range(1, self.micro_batch) if self.rows % size == 0)


@dataclass(frozen=True, slots=True)
class Rollout:
    """One episode as the trainer takes it."""

    prompt_ids: list[int]
    completion_ids: list[int]
    env_mask: list[int]
    logprobs: list[float]
    reward: float | None
    """None: something of ours broke, so the episode says nothing about the student."""


class EpisodeTrainer(GRPOTrainer):
    """GRPO whose completions are episodes."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        environments: Sequence[Environment],
        chat: ChatFormat,
        settings: GrpoSettings,
        scratch: Path,
        *,
        on_step: OnStep = silent,
    ) -> None:
        self.by_id = {environment.id: environment for environment in environments}
        self.chat = chat
        self.settings = settings
        self.engine = TransformersEngine(model, slots=settings.rows)
        self.played = 0
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - bare list and dict in its signature
            model=cast("Any", model),
            reward_funcs=[reward_of_episode],
            args=_config(settings, scratch, model),
            train_dataset=dataset([_prompt(environment) for environment in environments]),
            processing_class=tokenizer,
            rollout_func=cast("Any", _rollout),
            callbacks=[StepCallback(on_step)],
        )
        # The engine samples with the trainer's own weights, so nothing has to be synchronized; what is wanted
        # of this branch of TRL is that it compares the engine's log probabilities with its own and corrects
        # for the difference.
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
    on_step: OnStep = silent,
) -> list[Logs]:
    """Train ``model`` in place on episodes in ``environments`` and save it in ``out``, last and at once.

    Args:
        model: In float32.
        tokenizer: Saved beside the model.
        environments: At least as many as one step plays; shuffled by ``settings.seed``.
        chat: The student's format.
        out: Folder of the trained model; must not exist, or be empty.
        settings: How to train.
        on_step: Called after every optimizer step.

    Returns:
        What was logged after each step.

    Raises:
        SettingsError: Something lives at ``out``, or the environments are too few, or too long for the
            context, or the context is longer than the model's.
        StorageError: ``out`` cannot be written.
        EngineError: The model cannot be served, or every episode of a step broke.
    """
    if len(environments) < settings.environments:
        raise SettingsError(
            f"a step plays {settings.environments} different environments, and the pack has {len(environments)}. "
            f"Use at most {len(environments)} in a step, or a larger pack"
        )
    if settings.context > context_of(model):
        raise SettingsError(
            f"the context is {settings.context} tokens, and the model has been made for {context_of(model)}; "
            "use a shorter one"
        )
    with workshop(out, model) as shop, quiet_libraries():
        anyio.run(lambda: check_fit(environments, chat, limit=settings.context))
        trainer = EpisodeTrainer(model, tokenizer, environments, chat, settings, shop.scratch, on_step=on_step)
        history = optimize(trainer)
        shop.finish(model, tokenizer, history)
    return history


def reward_of_episode(
    reward: list[float | None], log_metric: Callable[[str, float], None], **rest: object
) -> list[float | None]:
    """The rewards that the rollout brought along; None where an episode broke."""
    log_metric(BROKEN, float(reward.count(None)))
    return reward


def _rollout(prompts: Sequence[Sequence[Mapping[str, Any]]], trainer: GRPOTrainer) -> dict[str, list[Any]]:
    """TRL's hook: play the episode of each prompt and give rows in that order; repetitions come as prompts."""
    owner = cast("EpisodeTrainer", trainer)
    environments = [owner.by_id[prompt[-1][KEY]] for prompt in prompts]
    rollouts = anyio.run(_play, owner, environments)
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
    found: dict[int, tuple[Trajectory, Rollout]] = {}
    first = trainer.played
    trainer.played += len(environments)

    async def play(index: int) -> None:
        sessions: list[StudentSession] = []
        agent = StudentAgent("student", trainer.engine, trainer.chat, sampling, sessions)
        seed = _seed(settings.seed, first + index)
        trajectory = await run_episode(environments[index], agent, trial=index, seed=seed)
        session = sessions[0] if sessions else None
        found[index] = (trajectory, rollout_of(trajectory, session, settings.reward, trainer.chat))

    async with trainer.engine.serving(), anyio.create_task_group() as tasks:
        for index in range(len(environments)):
            tasks.start_soon(play, index)
    if all(rollout.reward is None for _, rollout in found.values()):
        raise EngineError(
            f"all {len(found)} episodes of a step broke, so there is nothing to learn from; the first: "
            f"{found[0][0].reason}"
        )
    return [found[index][1] for index in range(len(environments))]


def rollout_of(trajectory: Trajectory, session: StudentSession | None, reward: RewardKind, chat: ChatFormat) -> Rollout:
    """Turn an episode into a row.

    An episode that broke has nothing to say about the student, and one without a sampled token has nothing to
    train on; each still needs a row of its group: a single masked end-of-turn id.
    """
    score = trajectory.score
    value = None if score is None else (score.total if reward == "total" else float(score.passed))
    if value is None or session is None or not session.ledger.turns:
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


def _config(settings: GrpoSettings, scratch: Path, model: PreTrainedModel) -> GRPOConfig:
    return GRPOConfig(
        **arguments(scratch, model, steps=settings.steps, learning_rate=settings.learning_rate, seed=settings.seed),
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=settings.rows // settings.micro_batch,
        num_generations=settings.group,
        max_completion_length=settings.context,
        temperature=settings.temperature,
        top_p=1.0,
        top_k=0,
        repetition_penalty=1.0,
        lr_scheduler_type="constant",
        beta=0.0,
        disable_dropout=True,  # the engine samples without, so the trainer has to score without
        # Summed over a long episode, tiny differences would mask all of it; a token has its own ratio instead.
        vllm_importance_sampling_mode="token_truncate",
        mask_truncated_completions=False,
    )


def _seed(seed: int, episode: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\0episode\0{episode}".encode()).digest()[:6])

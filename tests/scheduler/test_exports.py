"""An exported policy answers elsewhere as it did here: transformers, PEFT, vLLM's server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from opentinker import cli
from opentinker.recorder import Run
from opentinker.scheduler.cluster import Cluster
from opentinker.scheduler.jobs import run_experiment
from opentinker.scheduler.watcher import Silent

EXPERIMENT = """
name = "kuhn"
model = "tiny"
engine = "torch"
[env]
id = "kuhn_poker_v0"
options.illegal = "random"
[policies.alice]
rank = 8
learning_rate = 2e-2
[policies.bob]
kind = "full"
learning_rate = 3e-3
[cast]
player_0 = "alice"
player_1 = "bob"
[train]
updates = 2
episodes_per_update = 16
"""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Run:
    folder = tmp_path_factory.mktemp("exports")
    (folder / "experiment.toml").write_text(EXPERIMENT)
    return run_experiment(folder / "experiment.toml", [], folder / "runs", Silent())


@pytest.fixture(scope="module")
def turns(run: Run) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """A prompt that each policy was given, and what it answered."""
    found = {}
    for _, episode in run.episodes():
        for turn in episode.turns:
            found.setdefault(turn.policy, (turn.context_ids, turn.tokens))
    return found


def _export(run: Run, policy: str, *options: str) -> Path:
    assert cli.main(["export", str(run.folder), "--policy", policy, *options]) == 0
    return run.folder / "export" / policy


def _logprobs(model: Any, prompt: tuple[int, ...], answer: tuple[int, ...]) -> np.ndarray:
    """By plain transformers: of each answered token, after what stands before it."""
    import torch

    ids = torch.tensor([[*prompt, *answer]])
    with torch.no_grad():
        table = torch.log_softmax(model(ids).logits[0].float(), -1)
    places = range(len(prompt) - 1, ids.shape[1] - 1)
    return np.array([table[place, ids[0, place + 1]].item() for place in places])


@pytest.fixture(scope="module")
def learned(run: Run, turns: dict[str, Any]) -> dict[str, np.ndarray]:
    """What our own learner says, its checkpoint loaded."""
    from opentinker.learner.settings import FullSource, LoraSource, PolicySettings
    from opentinker.learner.worker import LearnerWorker
    from opentinker.types import AdapterSpec

    worker = LearnerWorker(str(run.folder / "base"))
    worker.add_policy("alice", LoraSource(AdapterSpec(8, 16.0)), PolicySettings())
    worker.add_policy("bob", FullSource(), PolicySettings())
    worker.load(run.latest_checkpoint() / "policies")
    return {name: worker.score(name, [turns[name]])[0] for name in ("alice", "bob")}


def test_an_exported_adapter_answers_in_plain_peft(
    run: Run, turns: dict[str, Any], learned: dict[str, np.ndarray]
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = _export(run, "alice")
    assert {p.name for p in folder.iterdir()} >= {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    base = AutoModelForCausalLM.from_pretrained(run.folder / "base")
    plain = _logprobs(base, *turns["alice"])
    found = _logprobs(PeftModel.from_pretrained(base, folder).eval(), *turns["alice"])
    assert np.abs(found - learned["alice"]).max() < 1e-5
    assert np.abs(plain - learned["alice"]).max() > 1e-3  # the check can fail


def test_an_exported_whole_model_answers_in_plain_transformers(
    run: Run, turns: dict[str, Any], learned: dict[str, np.ndarray]
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = _export(run, "bob")
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert np.abs(_logprobs(model, *turns["bob"]) - learned["bob"]).max() < 1e-5
    assert AutoTokenizer.from_pretrained(folder).chat_template
    assert not list(folder.glob("*optimizer*"))


def test_a_merged_adapter_is_a_whole_model(
    run: Run, turns: dict[str, Any], learned: dict[str, np.ndarray], tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    _export(run, "alice", "--merged", "--out", str(tmp_path / "merged"))
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert np.abs(_logprobs(model, *turns["alice"]) - learned["alice"]).max() < 1e-5


def test_an_adapter_and_its_merged_model_do_not_write_over_each_other(run: Run) -> None:
    adapter = _export(run, "alice")
    _export(run, "alice", "--merged")
    assert (adapter / "adapter_model.safetensors").is_file()
    assert (adapter.parent / "alice-merged" / "model.safetensors").is_file()


def test_what_can_not_be_exported_is_said(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (["--policy", "allice"], "did you mean 'alice'"),
        (["--policy", "alice", "--step", "7"], "no checkpoint of step 7; it has 1, 2"),
        (["--policy", "alice", "--best"], "has a score"),
        (["--policy", "bob", "--merged"], "nothing to merge"),
    ):
        assert cli.main(["export", str(run.folder), *options]) != 0
        assert said in capsys.readouterr().err.replace("\n", " ")


@pytest.fixture(scope="module")
def served(run: Run) -> Iterator[str]:
    """The address of a plain vLLM server with the exported adapter."""
    folder = _export(run, "alice")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(run.folder / "base"), "--enable-lora", "--enforce-eager"]
    command += ["--lora-modules", f"alice={folder}", "--port", str(port), "--dtype", "float32"]
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }
    log = run.folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        asyncio.run(_until_healthy(f"http://127.0.0.1:{port}", server, log))
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # its engine is a process of the same group
        server.wait(timeout=30)


async def _until_healthy(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 180
    async with httpx.AsyncClient() as client:
        while time.monotonic() < end:
            assert server.poll() is None, log.read_text()[-3000:]
            try:
                if (await client.get(f"{address}/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.5)
    raise AssertionError(f"the server did not start: {log.read_text()[-3000:]}")


@pytest.mark.vllm
def test_an_exported_adapter_is_served_by_a_plain_vllm_server(
    served: str, turns: dict[str, Any], learned: dict[str, np.ndarray]
) -> None:
    prompt, answer = turns["alice"]

    def ask(model: str) -> np.ndarray:
        body = {"model": model, "prompt": [*prompt, *answer], "max_tokens": 1, "echo": True}
        body |= {"logprobs": 0, "temperature": 0}
        reply = httpx.post(f"{served}/v1/completions", json=body, timeout=60)
        found = json.loads(reply.text)["choices"][0]["logprobs"]["token_logprobs"]
        return np.array(found[len(prompt) : len(prompt) + len(answer)])

    models = {each["id"] for each in httpx.get(f"{served}/v1/models").json()["data"]}
    assert "alice" in models
    base = next(name for name in models if name != "alice")
    assert np.abs(ask("alice") - learned["alice"]).max() < 1e-3
    assert np.abs(ask(base) - learned["alice"]).max() > 1e-3

"""Stand-in for verl.trainer.main_ppo with trainer.val_only: scores made-up answers as verl does."""

import json
import sys
from pathlib import Path

BEHAVIOUR = json.loads(Path("behaviour.json").read_text())


def main() -> int:
    with Path("argv.jsonl").open("a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    keys = {key: json.loads(value) for key, _, value in (word.partition("=") for word in sys.argv[5:])}
    samples = keys["actor_rollout_ref.rollout.val_kwargs.n"]
    right = 30 if keys["actor_rollout_ref.model.path"].endswith("global_step_30") else 20
    rows = [{"input": "q", "output": "a", "score": float(row < right), "step": 0} for row in range(40)] * samples
    folder = Path(keys["trainer.validation_data_dir"])
    folder.mkdir(parents=True)
    (folder / "0.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[: BEHAVIOUR.get("rows", 1000)]))
    name, mean = "val-core/openai/gsm8k/reward/mean@", right / 40
    value = f"np.float64({mean})" if BEHAVIOUR["version"] >= "0.9" else f"{mean}"
    print(f"(TaskRunner pid=4) \"Initial validation metrics: {{'{name}{samples}': {mean}}}\"")
    if not BEHAVIOUR.get("silent"):
        more = f" - val-core/openai/gsm8k/reward/best@{samples}/mean:0.9" if samples > 1 else ""
        print(f"\x1b[36m(TaskRunner pid=4)\x1b[0m step:0 - {name}{samples}:{value}{more} - val-aux/num_turns/min:2")
    return int(BEHAVIOUR.get("exit", 0))


if __name__ == "__main__":
    sys.exit(main())

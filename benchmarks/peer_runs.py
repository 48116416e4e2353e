"""One run of one of the tools that people use, on the settings of the digits study.

    .venv-peers/bin/python benchmarks/peer_runs.py REQUEST

REQUEST is JSON: tool, settings (in their order), examples an epoch, epochs, folder. Every epoch of
every trial is told in a line of events.jsonl in the folder. Nothing of Dovetail is used.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ETA = 3
WORKERS = 2
METRIC = "val_loss"


def main(request: Mapping[str, Any]) -> None:
    if request["tool"] == "ray-asha":
        with_ray(request)
    else:
        with_optuna(request)


def losses(request: Mapping[str, Any], number: int) -> Iterator[float]:
    """Train one setting, epoch by epoch, telling of each."""
    import train

    chosen = {**request["settings"][number], **request["fixed"]}
    words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    events = os.open(
        Path(request["folder"], "events.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT
    )
    try:
        for loss, _ in train.epochs(train.options().parse_args(words)):
            line = json.dumps({"at": time.time(), "trial": number, "loss": loss})
            os.write(events, line.encode() + b"\n")
            yield loss
    finally:
        os.close(events)


# ------------------------------------------------------------------------------------------ Optuna


def with_optuna(request: Mapping[str, Any]) -> None:
    """Two worker processes over one journal file; the settings stand in its queue."""
    study = _optuna_study(request)
    for number in range(len(request["settings"])):
        study.enqueue_trial({"number": number})
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=optuna_worker, args=(request,)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def optuna_worker(request: Mapping[str, Any]) -> None:
    import optuna

    trials = len(request["settings"])
    study = _optuna_study(request)

    def objective(trial: Any) -> float:
        if trial.number >= trials:  # the queue is empty
            study.stop()
            raise optuna.TrialPruned
        number = trial.suggest_int("number", 0, trials - 1)
        best = float("inf")
        for epoch, loss in enumerate(losses(request, number), 1):
            best = min(best, loss)
            trial.report(loss, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return best

    study.optimize(objective)


def _optuna_study(request: Mapping[str, Any]) -> Any:
    import optuna
    from optuna.pruners import HyperbandPruner, MedianPruner, SuccessiveHalvingPruner
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    epochs = request["fixed"]["epochs"]
    pruners: dict[str, Callable[[], Any]] = {
        "optuna-hyperband": lambda: HyperbandPruner(1, epochs, ETA),
        "optuna-halving": lambda: SuccessiveHalvingPruner(1, ETA, 0),
        "optuna-median": lambda: MedianPruner(5, 3),
    }
    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(Path(request["folder"], "journal")))),
        study_name="digits",
        sampler=optuna.samplers.RandomSampler(seed=0),
        pruner=pruners[request["tool"]](),
        direction="minimize",
        load_if_exists=True,
    )


# --------------------------------------------------------------------------------------- Ray Tune


def with_ray(request: Mapping[str, Any]) -> None:
    """ASHA in the form that Ray has it, which stops; processes are used again for further trials."""
    import ray
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    def trial(chosen: Mapping[str, int]) -> None:
        for loss in losses(request, chosen["number"]):
            tune.report({METRIC: loss})

    ray.init(
        num_cpus=WORKERS, include_dashboard=False, configure_logging=False, log_to_driver=False
    )
    numbers = list(range(len(request["settings"])))
    tuner = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"number": tune.grid_search(numbers)},
        tune_config=tune.TuneConfig(
            metric=METRIC,
            mode="min",
            max_concurrent_trials=WORKERS,
            reuse_actors=True,
            scheduler=ASHAScheduler(
                max_t=request["fixed"]["epochs"], grace_period=1, reduction_factor=ETA
            ),
        ),
        run_config=tune.RunConfig(storage_path=request["folder"], verbose=0),
    )
    tuner.fit()
    ray.shutdown()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

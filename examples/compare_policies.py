"""Compare policies from Python, on jobs made by chance: prints the mean completion time of each."""

from dovetail import traces
from dovetail.experiments.experiment import Experiment, simulate
from dovetail.traces.clusters.cluster_text import read_cluster


def main() -> None:
    recipe = traces.Recipe(jobs=500, gpus=32, load=0.8, c2=10, seed=1)
    experiment = Experiment(traces.generate(recipe), read_cluster("4x8"))
    for policy in ("fifo", "fifo-skip", "easy", "las", "srtf"):
        summary = simulate(experiment, policy).summary
        print(f"{policy:<10} {float(summary['mean_jct_s']) / 3600:6.2f} h")


if __name__ == "__main__":
    main()

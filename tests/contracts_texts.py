"""The policies that the contract is tried on."""

from dovetail.policies.registry import BUILTIN

# Defaults suit jobs of hours; these suit the seconds of our worlds. A quantum must be longer than
# saving and restoring a gang, or nothing but saving and restoring would ever happen.
SHORT = {
    "las": ["las:quantum=60"],
    "tiresias": [
        "tiresias:queues=3:limits=60/200",
        "tiresias:queues=2:limits=60:promote=2",
        "tiresias:queues=2:limits=60:late=true",
    ],
    "gittins": ["gittins:quantum=60", "gittins:quantum=60:horizon=100"],
    "round-robin": ["round-robin:slice_s=7"],
    "multilevel-feedback": ["multilevel-feedback:levels=3:slice_s=4"],
    "least-laxity": ["least-laxity:quantum_s=5"],
    "gandiva": ["gandiva:slice_s=6", "gandiva:slice_s=6:pack=false"],
    "fair-share": ["fair-share:half_life_s=50"],
    "srtf": ["srtf", "srtf:predictor=history-mean", "srtf:predictor=recent-mean", "srtf:gain_s=5"],
    "qssf": ["qssf", "qssf:predictor=recent-mean"],
    "gavel": [
        "gavel:round_s=20:reset_s=200",
        "gavel:objective=fifo:aware=false:round_s=7:reset_s=0",
    ],
    "allox": ["allox:round_s=7:reset_s=0"],
    "gandiva-fair": ["gandiva-fair:round_s=7:reset_s=0"],
    "pop": ["pop:k=2:policy=gavel/objective=isolated/round_s=9/reset_s=0"],
    "priority": ["priority", "priority:preempt=false"],
    "easy": ["easy", "easy:predictor=noisy-oracle", "easy:predictor=recent-mean"],
    "conservative": ["conservative", "conservative:predictor=noisy-oracle"],
    "elasticflow": ["elasticflow:slot_s=0", "elasticflow:slot_s=0:refuse=false"],
    "chronus": ["chronus:lease_s=5", "chronus:lease_s=20:refuse=false"],
    "andreas-greedy": ["andreas-greedy", "andreas-greedy:predictor=history-mean"],
    "andreas-random-greedy": [
        "andreas-random-greedy:passes=10",
        "andreas-random-greedy:passes=10:repaired=true",
    ],
    "andreas-local-search": ["andreas-local-search:passes=5:repaired=true"],
    "andreas-path-relinking": ["andreas-path-relinking:passes=5:repaired=true"],
    "optimus": ["optimus:round_s=10", "optimus:left=reports:round_s=5"],
    "afs": ["afs:round_s=10", "afs:lengths=false:round_s=5"],
    "pollux": ["pollux:states=10:generations=5:round_s=10"],
    "sia": ["sia:round_s=10"],
    "powercap": ["powercap:round_s=10"],
    "lyra": ["lyra:round_s=7", "lyra:policy=srtf:round_s=5", "lyra:policy=afs/round_s=9:round_s=6"],
}
TEXTS = [text for name in BUILTIN for text in SHORT.get(name, [name])]


def in_rounds(text: str) -> bool:
    """Does it decide at fixed times, and let a job that comes in between wait for the next?"""
    within = text.partition("policy=")[2].partition("/")[0]  # the one that it is over
    return {text.partition(":")[0], within} & {
        *("afs", "allox", "gandiva-fair", "gavel", "optimus", "pollux", "pop", "powercap", "sia")
    } != set()

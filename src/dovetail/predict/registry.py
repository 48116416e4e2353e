"""Predictors by name, made from text such as `history-mean:guess_s=600`: of durations, of speeds."""

from __future__ import annotations

from collections.abc import Mapping

from dovetail.catalogue import Catalogue

_DURATION = "dovetail.predict.duration"
_LEARNED = "dovetail.predict.learned"
_SPEED = "dovetail.predict.speed"
_LEFT = "dovetail.predict.left"
DURATIONS: Mapping[str, tuple[str, str]] = {
    "oracle": (_DURATION, "Oracle"),
    "noisy-oracle": (_DURATION, "NoisyOracle"),
    "history-mean": (_DURATION, "HistoryMean"),
    "user-estimate": (_DURATION, "UserEstimate"),
    "recent-mean": (_LEARNED, "RecentMean"),
    "boosted": (_LEARNED, "Boosted"),
    "mixture": (_LEARNED, "Mixture"),
}
SPEEDS: Mapping[str, tuple[str, str]] = {
    "oracle": (_SPEED, "AsMeasured"),
    "similar": (_SPEED, "AsSimilar"),
    "strangers": (_SPEED, "AsStrangers"),
    "seen": ("dovetail.predict.seen", "AsSeen"),
    "measured": ("dovetail.predict.measured", "AsReported"),
    "leased": ("dovetail.predict.step_rates", "AsLeased"),
    "none": (_SPEED, "SameEverywhere"),
    "packed": (_LEFT, "PackedSteps"),
    "one-gpu": ("dovetail.predict.one_gpu", "OneGpuProfiles"),
}
LEFT: Mapping[str, tuple[str, str]] = {
    "predicted": (_LEFT, "LessDone"),
    "reports": (_LEFT, "ByReports"),
    "iterations": (_LEFT, "IterationsLeft"),
}
PREDICTORS = Catalogue(
    "predictor",
    "dovetail catalogue predictors",
    "dovetail.predictors",
    DURATIONS,
    "duration_s",
    filled={
        "durations": "the true durations, which only a simulation knows",
        "seed": "",
    },
    nested=("seed",),
)
SPEED_PREDICTORS = Catalogue(
    "speed predictor",
    "dovetail catalogue speeds",
    "dovetail.speed_predictors",
    SPEEDS,
    "speed",
    filled={
        "table": "a table of speeds (--speed-table)",
        "view": "what jobs report, which only a daemon hears",
        "simulated": "a simulation in which jobs are seen to run (--speed-table)",
        "otherwise": "",
        "true_speeds": "a table of true speeds, which only a simulation knows (--speed-table)",
        "training": "applications, which only a simulation knows (--applications)",
    },
)
LEFT_PREDICTORS = Catalogue(
    "predictor of work left",
    "dovetail catalogue left",
    "dovetail.left_predictors",
    LEFT,
    "left_s",
    filled={
        "predictor": "durations (--predictor)",
        "training": "applications, which only a simulation knows (--applications)",
    },
    nested=("predictor",),
)


def source_of(catalogue: Catalogue, text: str) -> str:
    """On what its answers rest, in few words."""
    name = text.partition(":")[0]
    found = catalogue.find(name)
    return str(found.source()) if hasattr(found, "source") else catalogue.summary(name)

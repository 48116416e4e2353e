"""One profile for generated input: the same examples every time, and not too many of them."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "stable",
    derandomize=True,
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("long", parent=settings.get_profile("stable"), max_examples=1000)
settings.load_profile("stable")

"""Services under blows and beside training, in short; the long forms are `python -m benchmarks
service_chaos service_day`."""

from __future__ import annotations

from benchmarks import service_chaos, service_day
from benchmarks.live import daemon


def test_no_request_is_lost_or_begun_twice_while_replicas_and_the_daemon_are_killed() -> None:
    with daemon(slots=4) as (client, home):
        stream, begun = service_chaos.storm(client, home, seconds=12.0)
    assert stream.lost() == 0
    assert max(begun.values()) == 1
    statuses = stream.statuses()
    assert statuses.keys() <= {200, 502, 503}
    assert statuses[502] <= 32  # those that the killed replica had begun
    good = {str(number) for number, own in stream.answers.items() if own[0][0] == 200}
    assert good <= begun.keys()


def test_training_fills_what_services_leave_and_ends_as_it_does_alone() -> None:
    day = service_day.played(day_s=8.0, days=1, steps=80)
    assert day.alike == service_day.JOBS
    assert day.preemptions >= 1
    assert day.use.part >= 0.7  # 85 % is measured on a quiet machine
    for stream in day.streams:
        assert stream.lost() == 0
        assert stream.statuses().keys() == {200}

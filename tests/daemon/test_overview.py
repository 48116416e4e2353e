"""What pages ask for beyond what everybody asks for."""

from __future__ import annotations

from typing import Any

from dovetail.daemon.overview.stints import StintBook


def test_stints_are_read_from_the_lines_of_the_journal() -> None:
    book = StintBook()
    book.read(
        [
            '{"at":1.0,"start":"1","on":[1000,[0,3]]}',
            '{"at":2.0,"start":"2","on":[500,[1,4],300]}',
            '{"at":3.0,"preempt":"1"}',
            '{"at":4.0,"resize":"2","on":[500,[0,1]]}',
            '{"at":5.0,"finished":"2"}',
            '{"at":6.0,"failed":"9","reason":"x","lost_s":0.0}',
        ]
    )
    told = [
        (s.job_id, s.since, s.until, s.end, s.on.share, s.on.slices[0].mask) for s in book.closed
    ]
    assert told == [
        ("1", 1.0, 3.0, "preempted", 1000, 0b11),
        ("2", 2.0, 4.0, "moved", 500, 0b100),
        ("2", 4.0, 5.0, "finished", 500, 0b1),
    ]
    assert book.unknown == {"9": (6.0, "failed")}
    assert not book.open


def test_a_line_is_found_wherever_it_lies_in_a_long_log(live: Any) -> None:
    job_id = live.submit("seq 1 200000; echo A needle; seq 1 200000; printf 'last needle'")
    live.wait_for(job_id)
    found, start = [], 0
    while True:
        told = live.get(f"/v1/page/jobs/{job_id}/log?text=NEEDLE&start={start}&most=1")
        found += told["found"]
        if told["upto"] >= told["end"]:
            break
        start = told["upto"]
    assert [place["line"] for place in found] == ["A needle", "last needle"]
    at = found[0]["at"]
    status, text = live.raw("GET", f"/v1/jobs/{job_id}/log?start={at}&most=8")
    assert (status, text) == (200, b"A needle")


def test_a_cell_that_a_spreadsheet_would_carry_out_is_text(live: Any) -> None:
    live.wait_for(live.submit("true", name="=HYPERLINK(1)"))
    assert ",'=HYPERLINK(1)," in live.text("/v1/page/usage.csv")


def test_the_hour_and_the_story_of_a_job_tell_its_stints(live: Any) -> None:
    job_id = live.submit("sleep 0.2")
    live.wait_for(job_id)
    story = live.get(f"/v1/page/jobs/{job_id}/story")
    (stint,) = story["stints"]
    assert stint["end"] == "finished"
    assert stint["until"] - stint["since"] >= 0.2
    mine = [own for own in live.get("/v1/page/past")["stints"] if own["id"] == job_id]
    assert [(own["since"], own["until"]) for own in mine] == [(stint["since"], stint["until"])]

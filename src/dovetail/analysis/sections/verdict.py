"""The verdict, as it opens the page."""

from __future__ import annotations

from html import escape

from dovetail.analysis.conclusions import Verdict
from dovetail.analysis.policy_choice import choice_text
from dovetail.analysis.policy_contest import Contest
from dovetail.analysis.sections.html import bullets, finding, policy_link, section, text


def verdict_section(own: Verdict, contest: Contest | None) -> str:
    return section(
        "verdict",
        "Verdict",
        "<h3>What dominates here</h3>",
        bullets(own.dominant) or "<p>Nothing could be measured; see the end of the page.</p>",
        "<h3>Where measurements disagree</h3>" + finding(own.disagreements)
        if own.disagreements
        else "",
        "<h3>Three policies to try</h3>",
        _choices(own, contest),
        "<h3>How sure is that?</h3>",
        bullets(own.sureness),
        bullets(own.worth_knowing[:1]),
        _record(own),
        style="verdict",
    )


def _choices(own: Verdict, contest: Contest | None) -> str:
    if not own.choices or contest is None:
        return "<p>None: nothing that was tried is better than fifo here, or nothing could be.</p>"
    items = "".join(
        f'<li><span class="policy">{policy_link(choice.policy)}</span> '
        f"{text(choice_text(choice, contest))}</li>"
        for choice in own.choices
    )
    return f"<ol>{items}</ol>"


def _record(own: Verdict) -> str:
    if not own.record:
        return ""
    items = "".join(
        f"<li><b>{escape(advice.name)}</b> ({escape(advice.id)}): {escape(advice.how)}. "
        f"Because: {escape(advice.why)}.</li>"
        for advice in own.record
    )
    return f"<h3>What to record from now on</h3><ul>{items}</ul>"

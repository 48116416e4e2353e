"""The 55 features and factors, and which of them this trace has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dovetail.analysis.sections.html import Cell, PageColumn, paragraph, policy_link, section, table
from dovetail.insight.feature_catalogue import STATUSES, WITH_PREDICTOR, FeatureCatalogue, Item
from dovetail.policies import registry

GROUPS = (("J", "Features of jobs"), ("C", "Factors of the cluster"), ("D", "Factors of time"))
COLUMNS = (
    PageColumn("Id"),
    PageColumn("Feature or factor", is_text=True),
    PageColumn("Here", is_text=True),
    PageColumn("What there is, or what recording it needs", is_text=True),
    PageColumn("What it decides", is_text=True),
    PageColumn("Our policies that use it", is_text=True),
    PageColumn("Systems in the literature", is_text=True),
)
LACKING = (
    PageColumn("Feature"),
    PageColumn("Here", is_text=True),
    PageColumn("Definition we propose", is_text=True),
    PageColumn("Why", is_text=True),
)


def catalogue_section(own: FeatureCatalogue) -> str:
    counts = ", ".join(f"{own.count(status)} {status}" for status in STATUSES)
    tables = "".join(
        f"<h3>{title}</h3>{table(title, COLUMNS, _rows(own.items, letter), 'catalogue')}"
        for letter, title in GROUPS
    )
    return section(
        "catalogue",
        "2. Features and factors: what this trace has",
        paragraph(
            f"Of the {len(own.items)} features and factors that schedulers of deep-learning work "
            f"use or should: {counts}. “Through a predictor” means that every policy that is told "
            f"durations profits: {', '.join(WITH_PREDICTOR)}."
        ),
        tables,
        "<h3>Hardly used by anyone, lacking in most traces</h3>",
        table("Lacking features", LACKING, _lacking(own), "catalogue"),
    )


def _rows(items: Sequence[Item], letter: str) -> Iterable[Sequence[Cell]]:
    for place, item in enumerate(items):
        if item.id.startswith(letter):
            there = item.evidence and item.status != "missing"
            yield (
                Cell(item.id, place),
                Cell(item.name),
                _status(item.status),
                Cell(item.evidence if there else _needs(item)),
                Cell(item.effect),
                Cell(_policies(item), html=True),
                Cell(item.systems),
            )


def _needs(item: Item) -> str:
    there = f"{item.evidence}. " if item.evidence else ""
    return f"{there}To record: {item.record}"


def _status(status: str) -> Cell:
    return Cell(f'<span class="status {status}">{status}</span>', html=True)


def _policies(item: Item) -> str:
    links = [policy_link(name) for name in item.policies]
    if item.also:
        links.append(escape(item.also))
    if item.predicts:
        links.append("through a predictor")
    return ", ".join(links) or "none yet"


def _lacking(own: FeatureCatalogue) -> Iterable[Sequence[Cell]]:
    for row in own.lacking:
        about = f" ({', '.join(row.of)})" if row.of else ""
        yield Cell(row.name + about), _status(row.here), Cell(row.definition), Cell(row.why)


def policies_section(names: Iterable[str]) -> str:
    """The description of each policy named on the page."""
    wanted = set(names)
    known = [name for name in registry.BUILTIN if name in wanted]
    rows = "".join(
        f'<dt id="policy-{escape(name)}"><code>{escape(name)}</code></dt>'
        f"<dd>{escape(registry.describe(name).summary)}</dd>"
        for name in known
    )
    return section(
        "policies",
        "The policies named here",
        f'<dl class="policies">{rows}</dl>',
        paragraph("All about one: dovetail policies NAME.", "hint"),
    )

// Puts the page of an analysis together.
function key(names) {
  return el("div", { class: "legend" }, ...names.map((name, i) => el("span", {}, swatchOf(i), name)));
}

function main({ charts }) {
  for (const holder of document.querySelectorAll("[data-chart]")) {
    const plan = charts[Number(holder.dataset.chart)];
    const label = holder.closest("figure").querySelector("figcaption").textContent;
    const names = plan.kind === "lines" ? plan.lines.map((own) => own.name) : plan.kind === "bars" ? plan.series.map((own) => own.name) : plan.series ?? [];
    if (names.length > 1) holder.before(key(names));
    KINDS[plan.kind](holder, plan, label);
  }
  for (const table of document.querySelectorAll("table.sortable")) sortable(table);
  whiteOnPaper();
}

start(main);

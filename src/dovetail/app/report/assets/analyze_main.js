// Puts the page of an analysis together. A failure is said aloud instead of leaving empty boxes.
function report(message) {
  const place = $$("#failure");
  place.textContent = `A part of this page could not be drawn: ${message}`;
  place.hidden = false;
}
addEventListener("error", (event) => report(event.message));
addEventListener("unhandledrejection", (event) => report(String(event.reason)));

function key(names) {
  return el("div", { class: "legend" }, ...names.map((name, i) => el("span", {}, swatchOf(i), name)));
}

function main() {
  const { charts } = JSON.parse($$("#data").textContent);
  for (const holder of document.querySelectorAll("[data-chart]")) {
    const plan = charts[Number(holder.dataset.chart)];
    const label = holder.closest("figure").querySelector("figcaption").textContent;
    const names = plan.kind === "lines" ? plan.lines.map((own) => own.name) : plan.kind === "bars" ? plan.series.map((own) => own.name) : plan.series ?? [];
    if (names.length > 1) holder.before(key(names));
    KINDS[plan.kind](holder, plan, label);
  }
  for (const table of document.querySelectorAll("table.sortable")) sortable(table);
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; });
}

main();
document.documentElement.dataset.ready = "yes";

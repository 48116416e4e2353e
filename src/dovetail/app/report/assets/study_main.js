// Puts the page of a study together. A failure is said aloud instead of leaving empty boxes.
function report(message) {
  const place = $$("#failure");
  place.textContent = `A part of this page could not be drawn: ${message}`;
  place.hidden = false;
}
addEventListener("error", (event) => report(event.message));
addEventListener("unhandledrejection", (event) => report(String(event.reason)));

function curvesSection(data) {
  const choice = { over: "step", log: data.log };
  const chart = curvesChart($$("#curves"), data, choice);
  for (const button of document.querySelectorAll('[name="over"]')) button.addEventListener("change", () => { choice.over = button.value; chart.draw(); });
  const log = $$("#log");
  log.checked = data.log;
  $$("#log-choice").hidden = data.low <= 0;
  log.addEventListener("change", () => { choice.log = log.checked; chart.draw(); });
  curvesKey($$("#curves-key"), data);
  $$("#curves-note").textContent = data.curves_note;
}

function main() {
  const data = JSON.parse($$("#data").textContent);
  const hasValues = data.best.length > 0;
  for (const name of ["curves", "best", "settings"]) $$(`#s-${name}`).hidden = !hasValues;
  $$("#s-gpus").hidden = !data.places.length;
  $$("#s-trials").hidden = !data.trials.length;
  for (const table of document.querySelectorAll("#s-others table")) sortable(table);
  if (hasValues) {
    curvesSection(data);
    bestChart($$("#best"), data);
    settingsCharts($$("#settings"), data);
    $$("#s-settings").hidden = !$$("#settings").children.length;
  }
  if (data.places.length) gpusChart($$("#gpus"), data);
  $$("#gpus-note").textContent = data.gpus_note;
  trialsTable($$("#trials"), data);
  // Paper is white whatever the screen is.
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; });
}

main();
document.documentElement.dataset.ready = "yes";

// Puts the page of a study together.
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

function main(data) {
  const hasValues = data.best.length > 0;
  for (const name of ["curves", "best", "settings"]) $$(`#s-${name}`).hidden = !hasValues;
  $$("#s-gpus").hidden = !data.places.length;
  $$("#s-trials").hidden = !data.trials.length;
  for (const table of document.querySelectorAll("#s-others table")) sortable(table);
  if (hasValues) {
    curvesSection(data);
    bestChart($$("#best"), data);
    $$("#importance-note").textContent = data.importance_note;
    parallelChart($$("#parallel"), data);
    $$("#parallel-hint").hidden = !$$("#parallel").children.length;
    settingsCharts($$("#settings"), data);
    $$("#s-settings").hidden = !$$("#settings").children.length;
  }
  if (data.places.length) gpusChart($$("#gpus"), data);
  $$("#gpus-note").textContent = data.gpus_note;
  trialsTable($$("#trials"), data);
  whiteOnPaper();
}

start(main);

// Puts the page of simulated services together.
function main(data) {
  const { runs } = data;
  document.body.classList.toggle("single", runs.length < 2);
  sortable($$(".summary"));
  sortable($$(".services"));
  $$("#best-hint").hidden = runs.length < 2;
  const shown = new Set(runs.keys());
  const some = (key) => runs.some((run) => run.series[key].some((value) => value > 0));
  $$("#sleeping").hidden = !some("asleep");
  $$("#trained").hidden = !some("training");
  const number = (value) => short(value);
  const charts = [
    timeline($$("#attainment"), 200, "attainment", runs, shown, percent),
    timeline($$("#goodput"), 190, "goodput", runs, shown, number),
    timeline($$("#awake"), 190, "awake", runs, shown, number),
    timeline($$("#asleep"), 190, "asleep", runs, shown, number),
    timeline($$("#training"), 190, "training", runs, shown, number),
    cdfChart($$("#cdf"), runs, shown, () => 0, "Latencies of answers"),
  ];
  policyLegends(runs, shown, () => charts.forEach((chart) => chart.draw()));
  whiteOnPaper();
}

start(main);

// Puts the page together.
function drawnText(run) {
  const { shown, total, gpu_time_share, busy } = run.gantt;
  if (!total) return "No job ran.";
  if (!busy) return `Showing all ${count(total, "stint")}.`;
  return `Showing the ${plain(shown)} largest of ${plain(total)} stints (${percent(gpu_time_share)} of the GPU time used). Grey underneath: how busy each ${busy.by_node ? "node" : "GPU"} was with all of them.`;
}

function chosenText(job) {
  if (!job) return [];
  const facts = jobFacts(job).map(([name, value]) => `${name} ${value}`).join(" · ");
  const stints = job.stints.slice(0, 12).map(({ from, to }) => `${duration(from)} to ${duration(to)}`).join("; ");
  const more = job.stints.length > 12 ? `; and ${job.stints.length - 12} more` : "";
  return [el("p", {}, el("b", {}, `Job ${job.id}: `), facts), el("p", {}, `${count(job.stints.length, "stint")} drawn: ${stints}${more}`)];
}

function ganttSection(data) {
  const contents = new Map();
  const gantt = new Gantt($$("#stints"), (job) => $$("#chosen").replaceChildren(...chosenText(job)));
  const show = (index) => {
    const run = data.runs[index];
    if (!contents.has(index)) contents.set(index, unpack(run, data));
    gantt.show(run, contents.get(index));
    $$("#drawn").textContent = drawnText(run);
    $$("#chosen").replaceChildren(...chosenText(gantt.job));
    $$(".of-policy").textContent = data.runs.length > 1 ? `under ${run.policy}` : "";
    slowestTable($$("#slowest"), run.slowest, find);
  };
  const find = (id) => {
    const { jobs, byId } = gantt.content;
    const job = byId.get(id) ?? byId.get(`${id.slice(0, 79)}…`) ?? jobs.find((each) => each.id.startsWith(id));
    $$("#gantt").scrollIntoView({ block: "nearest" });
    if (job) return gantt.goTo(job);
    gantt.choose(null);
    $$("#chosen").replaceChildren(el("p", {}, `Job ${id} is not among the ${count(jobs.length, "job")} drawn for this policy.`));
  };
  $$("#policy").append(...data.runs.map((run, i) => el("option", { value: i }, run.policy)));
  $$("#policy").addEventListener("change", (event) => show(Number(event.target.value)));
  $$("#colour").addEventListener("change", (event) => gantt.recolour(event.target.value));
  $$("#find").addEventListener("submit", (event) => { event.preventDefault(); if ($$("#wanted").value) find($$("#wanted").value.trim()); });
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => gantt.do(button.dataset.do));
  show(0);
  return gantt;
}

function main(data) {
  const { runs } = data;
  document.body.classList.toggle("single", runs.length < 2);
  sortable($$(".summary"));
  $$("#best-hint").hidden = runs.length < 2;
  if (!runs.length) {
    for (const section of document.querySelectorAll("section[id]")) section.hidden = true;
    return;
  }
  dots($$("#dots"), runs);
  if (data.front) frontSection(data.front, runs);
  const gantt = ganttSection(data);
  const shown = new Set(runs.keys());
  const charts = [
    timeline($$("#waiting"), 190, "waiting", runs, shown, (value) => short(value)),
    timeline($$("#running"), 190, "running", runs, shown, (value) => short(value)),
    timeline($$("#allocated"), 200, "allocated", runs, shown, (value, run) => `${percent(value)} (${short(value * run.gpus)} GPUs)`),
  ];
  const size = sizePicker($$("#sizes"), data.size_classes, runs, () => charts.at(-1).draw());
  charts.push(cdfChart($$("#cdf"), runs, shown, size));
  policyLegends(runs, shown, () => charts.forEach((chart) => chart.draw()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => gantt.recolour());
  whiteOnPaper(() => { gantt.recolour(); gantt.draw(); });
}

start(main);

// The page of one study, drawn by the scripts of its report, and drawn anew as it grows.
const name = decodeURIComponent(location.pathname.split("/").at(-1));
const study = { told: null, caller: null, more: 10, choice: { over: "step", log: null } };

// A place without what was drawn in it before, and without what watched its width.
function fresh(selector) {
  const old = $$(selector);
  const place = old.cloneNode(false);
  old.replaceWith(place);
  return place;
}

function showCurves(data) {
  const { choice } = study;
  choice.log ??= data.log;
  $$("#log").checked = choice.log;
  $$("#log-choice").hidden = data.low <= 0;
  curvesChart(fresh("#curves"), data, choice);
  curvesKey(fresh("#curves-key"), data);
  $$("#curves-note").textContent = data.curves_note;
}

function draw() {
  const { data } = study.told;
  const hasValues = data.best.length > 0;
  for (const part of ["curves", "best", "settings"]) $$(`#s-${part}`).hidden = !hasValues;
  $$("#s-gpus").hidden = !data.places.length;
  $$("#s-trials").hidden = !data.trials.length;
  if (hasValues) {
    showCurves(data);
    bestChart(fresh("#best"), data);
    $$("#importance-note").textContent = data.importance_note;
    parallelChart(fresh("#parallel"), data);
    settingsCharts(fresh("#settings"), data);
  }
  if (data.places.length) gpusChart(fresh("#gpus"), data);
  $$("#gpus-note").textContent = data.gpus_note;
  rememberedSort($$("#trials"), (table) => { trialsTable(table, data); linkJobs(table, data); });
  choices(data);
}

function linkJobs(table, data) {
  const jobs = new Map(data.trials.map((trial) => [String(trial.number), trial.job]));
  for (const row of table.tBodies[0].rows) {
    const job = jobs.get(row.dataset.trial);
    if (job) row.cells[1].replaceChildren(el("a", { href: `/page/job/${job}` }, job));
  }
}

// ---------------------------------------------------------------------------------- two trials

function choices(data) {
  const ranked = [...data.trials].sort((a, b) => (a.rank ?? 2) - (b.rank ?? 2)).map((trial) => String(trial.number));
  $$("#comparing").hidden = ranked.length < 2;
  for (const [selector, place] of [["#one", 0], ["#other", 1]]) {
    const chosen = $$(selector).value || ranked[place];
    $$(selector).replaceChildren(...data.trials.map((trial) => el("option", { value: trial.number, selected: String(trial.number) === chosen }, String(trial.number))));
  }
  compare();
}

function compare() {
  const { data } = study.told;
  const [one, other] = ["#one", "#other"].map((selector) => data.trials.find((trial) => String(trial.number) === $$(selector).value));
  const table = $$("#compared");
  table.hidden = !one || !other || one === other;
  if (table.hidden) return;
  const rows = [["state", one.state, other.state], [`best ${data.metric}`, valueText(one.best), valueText(other.best)], ["steps", plain(one.steps), plain(other.steps)],
    ...data.parameters.map((parameter, i) => [parameter, ...[one, other].map((trial) => (trial.settings[i] === null ? "–" : settingText(trial.settings[i])))])];
  table.replaceChildren(
    el("caption", { class: "unseen" }, "Two trials compared"),
    el("thead", {}, el("tr", { class: "keys" }, el("th", { scope: "col", class: "text" }, ""), ...[one, other].map((trial) => el("th", { scope: "col" }, `Trial ${trial.number}`)))),
    el("tbody", {}, ...rows.map(([what, a, b]) => el("tr", {}, el("th", { scope: "row" }, what), ...[a, b].map((value) => el("td", {}, a === b ? value : el("b", {}, value)))))));
}

// ------------------------------------------------------------------------------------ what may be done

const DEEDS = [["stop", "Stop", "open"], ["extend", "More trials", "open"], ["resume", "Resume", "stopped"], ["cancel", "Cancel", "open,stopped"]];
function showDeeds() {
  const { told } = study;
  const rows = told.owned ? DEEDS.filter(([, , states]) => states.split(",").includes(told.state)) : [];
  $$("#s-do").hidden = !rows.length;
  const key = rows.map(([what]) => what).join();
  if (study.deeds === key) return;
  study.deeds = key;
  $$("#deeds").replaceChildren(...rows.flatMap(([what, label]) => {
    const button = el("button", { type: "button", class: "plain", id: `do-${what}`, onclick: () => perform(button, what, label) }, label);
    const field = what === "extend" ? moreField() : null;
    return [el("span", { class: "deed" }, button, field), el("code", { id: `${what}-command` }, commandOf(what))];
  }));
}

function moreField() {
  const field = el("input", { type: "number", id: "more", min: 1, step: 1, value: study.more, "aria-label": "So many more trials",
    oninput: () => { study.more = Number(field.value); $$("#extend-command").textContent = commandOf("extend"); } });
  return field;
}

const commandOf = (what) => `dovetail study ${what} ${study.told.id}${what === "extend" ? ` ${study.more}` : ""}`;

async function perform(button, what, label) {
  if (what === "cancel" && !button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Close it for good?";
    setTimeout(() => { delete button.dataset.sure; button.textContent = label; }, 15000);
    return;
  }
  try {
    await post(`/v1/studies/${encodeURIComponent(study.told.id)}/${what}`, what === "extend" ? { trials: study.more } : {});
    say($$("#done"), `${label}: done.`);
    refresh();
  } catch (error) { say($$("#done"), error.message, true); }
}

// ------------------------------------------------------------------------------------------ all of it

function show() {
  const { told } = study;
  document.title = `Study ${told.name} · Dovetail`;
  $$("#title").textContent = `Study ${told.name}`;
  $$("#state").hidden = false;
  $$("#state").textContent = told.state;
  $$("#facts").replaceChildren(...told.facts.map((fact) => el("li", {}, fact)));
  const { best } = told;
  $$("#found").replaceChildren(
    el("p", { class: "found" }, told.owned ? told.found : "What its trials report is for its owner and administrators to see."),
    best ? el("dl", { class: "settings" }, ...Object.entries(best.settings).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, settingText(value))])) : "");
  showDeeds();
  draw();
}

const read = latest(() => get(`/v1/page/studies/${encodeURIComponent(name)}`));
async function refresh() {
  const told = await read();
  if (!told) return;
  study.told = told;
  show();
}

const again = atMost(1000, refresh);
onChange((message) => { if (!study.told || !message.complete || message.studies.includes(study.told.id)) again(); });
for (const button of document.querySelectorAll('[name="over"]')) button.addEventListener("change", () => { study.choice.over = button.value; showCurves(study.told.data); });
$$("#log").addEventListener("change", () => { study.choice.log = $$("#log").checked; showCurves(study.told.data); });
for (const selector of ["#one", "#other"]) $$(selector).addEventListener("change", compare);
refresh().catch((error) => { if (error.status === 404) { $$("#title").textContent = error.message; for (const own of document.querySelectorAll("section")) own.hidden = true; } else shown(error); });

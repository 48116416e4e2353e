// The page of one job.
const id = decodeURIComponent(location.pathname.split("/").at(-1));
const job = { row: null, story: null, caller: null, names: new Map(), typed: {}, told: false };
const log = new LogView($$("#log"), id);
const ENDED = ["finished", "failed", "cancelled"];

// ------------------------------------------------------------------------------------ what may be done

// name, label, the command, when it may be done, what is asked.
const DEEDS = [
  ["pause", "Pause", (job) => !ENDED.includes(job.phase) && !/^(paused|held)/.test(job.reason), () => post("/v1/jobs/pause", { ids: [id] })],
  ["resume", "Resume", (job) => !ENDED.includes(job.phase) && /^(paused|held|begins)/.test(job.reason), () => post("/v1/jobs/resume", { ids: [id] })],
  ["requeue", "Start over", (job) => ["running", "starting", "suspended"].includes(job.phase), () => post("/v1/jobs/requeue", { ids: [id] })],
  ["prio", "Set priority", (job) => !ENDED.includes(job.phase), () => post("/v1/jobs/priority", { ids: [id], priority: Number($$("#prio-field").value) })],
  ["again", "Run again", (job) => ENDED.includes(job.phase), () => post(`/v1/jobs/${id}/again`, { changes: otherGpus() ? { resources: { gpus: otherGpus() } } : {} })],
  ["notify", "Tell me when it ends", (job) => !ENDED.includes(job.phase) && !live.kept, askToTell],
  ["cancel", "Cancel", (job) => !ENDED.includes(job.phase), () => post("/v1/jobs/cancel", { ids: [id] })],
];

function showDeeds() {
  const { row, story, caller } = job;
  $$("#s-do").hidden = !story.owned;
  const rows = DEEDS.filter(([name, , may]) => may(row) && (name !== "again" || row.user === caller.user));
  const key = rows.map(([name]) => name).join();
  if (job.deeds === key) return;
  job.deeds = key;
  $$("#deeds").replaceChildren(...rows.flatMap(([name, label, , work]) => {
    const field = FIELDS[name] ? deedField(name, ...FIELDS[name]) : null;
    const button = el("button", { type: "button", class: "plain", id: `do-${name}`, onclick: () => perform(button, name, label, work) }, label);
    return [el("span", { class: "deed" }, button, field), el("span", {}, name === "notify" ? "as long as this page is open; also when it is closed: " : null, el("code", { id: `${name}-command` }, commandOf(name)))];
  }));
}

// What is typed beside a button: its label, what it is at first, its bounds, and how the command says it.
const FIELDS = {
  prio: ["Priority", () => job.row.priority, { step: "any" }, (value) => ` ${value}`],
  again: ["on so many GPUs", () => job.row.gpus, { min: 0, step: 1 }, () => (otherGpus() ? ` --gpus ${otherGpus()}` : "")],
};

function deedField(name, label, first, bounds) {
  const field = el("input", { type: "number", id: `${name}-field`, value: job.typed[name] ?? first(), ...bounds,
    oninput: () => { job.typed[name] = field.value; $$(`#${name}-command`).textContent = commandOf(name); } });
  return el("label", {}, field, ` ${label}`);
}

const commandOf = (name) => `dovetail ${name} ${id}${name === "notify" ? " desktop" : FIELDS[name] ? FIELDS[name][3](job.typed[name] ?? FIELDS[name][1]()) : ""}`;
const otherGpus = () => { const typed = Number(job.typed.again ?? job.row.gpus); return typed !== job.row.gpus && typed > 0 ? typed : null; };

// ------------------------------------------------------------------------------------- told at its end

async function askToTell() {
  if (!("Notification" in window) || (await Notification.requestPermission()) !== "granted") throw new Error("this browser does not let the page tell you; the command line does");
  keepLive();
  return { told: "This page will tell you, as long as it is open, also behind others." };
}

function tellEnd() {
  if (!live.kept || job.told || !ENDED.includes(job.row.phase)) return;
  job.told = true;
  new Notification(`Job ${id} ${job.row.phase === "cancelled" ? "was cancelled" : `has ${job.row.phase}`}`, { body: job.row.name, tag: `dovetail-${id}` });
}

async function perform(button, name, label, work) {
  if (name === "cancel" && !button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Cancel it for good?";
    setTimeout(() => { delete button.dataset.sure; button.textContent = label; }, 15000);
    return;
  }
  button.disabled = true;
  try {
    const told = await work();
    say($$("#done"), told.told ? told.told : name === "again" ? `Submitted as job ${told.ids.join(", ")}.` : `${label}: done.`);
    if (name === "again") $$("#done").append(" ", el("a", { href: `/page/job/${told.ids[0]}` }, `To job ${told.ids[0]}`));
    refresh();
  } catch (error) { say($$("#done"), error.message, true); }
  button.disabled = false;
}

// ------------------------------------------------------------------------------------------- stints

function showStints() {
  const { stints } = job.story;
  $$("#s-stints").hidden = !stints.length;
  if (!stints.length) return;
  const end = Math.max(...stints.map((own) => own.until ?? clockNow()));
  const begin = job.row.submitted_at;
  const span = Math.max(end - begin, 1);
  const holder = $$("#stints");
  const width = Math.max(holder.clientWidth, 200);
  const x = { ...scale(0, span, false, 8, width - 8), ticks: timeTicks(0, span, width / 90) };
  const at = (time) => x.at(time - begin);
  const marks = stints.flatMap((own) => {
    const [from, to] = [at(own.since), at(own.until ?? clockNow())];
    const cost = (own.save_s ?? 0) + own.lost_s;
    return [
      svg("rect", { class: `stint-mark ${own.until === null ? "open" : ""}`, x: from, y: 8, width: Math.max(to - from, 1.5), height: 26 }),
      ...(cost > 0 ? [svg("rect", { class: "stint-cost", x: Math.max(to - Math.max(at(begin + cost) - at(begin), 3), from), y: 8, width: Math.max(at(begin + cost) - at(begin), 3), height: 26 })] : []),
    ];
  });
  const label = `${count(stints.length, "stint")} over ${duration(span)} since its submission`;
  holder.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${width} 72`, height: 72, role: "img", "aria-label": label },
    ...axes(x, { ticks: [], at: () => 0 }, { left: 8, right: width - 8, top: 4, bottom: 38 }, { across: "since its submission" }), ...marks));
  stintTable(stints);
}

function stintTable(stints) {
  const heads = ["From", "Lasting", "On", "End", "Gave way by", "Saving", "Coming back", "Work to do again"];
  const cost = (seconds) => (seconds === null ? "–" : duration(seconds));
  $$("#stint-rows").replaceChildren(
    el("caption", { class: "unseen" }, "Stints, and what each preemption cost"),
    el("thead", {}, el("tr", { class: "keys" }, ...heads.map((name, i) => el("th", { scope: "col", class: [0, 2, 3, 4].includes(i) ? "text" : null }, name)))),
    el("tbody", {}, ...stints.slice(-200).reverse().map((own) => el("tr", {},
      el("th", { scope: "row" }, moment(own.since)), el("td", {}, duration((own.until ?? clockNow()) - own.since)), el("td", { class: "text" }, places(own.on, job.names)),
      el("td", { class: "text" }, own.until === null ? "goes on" : own.end), el("td", { class: "text" }, own.rung || "–"), el("td", {}, cost(own.save_s)), el("td", {}, cost(own.restore_s)), el("td", {}, own.lost_s ? duration(own.lost_s) : "–")))),
  );
}

// ------------------------------------------------------------------------------------------ metrics

function showMetrics() {
  const { metrics } = job.story;
  $$("#s-metrics").hidden = !metrics.length;
  const byTime = document.querySelector('[name="over"]:checked').value === "time";
  $$("#metrics").replaceChildren(...metrics.map((own) => metricFigure(own, byTime)));
}

function metricFigure(metric, byTime) {
  const width = 420;
  const box = { left: FRAME.left, right: width - 8, top: 10, bottom: 150 };
  const first = job.row.submitted_at;
  const hasSteps = metric.steps.every((step) => step !== null);
  const caption = el("figcaption", {}, [metric.name, metric.values.length ? short(metric.values.at(-1), 4) : ""].join(" "),
    metric.odd ? el("span", { class: "bad" }, ` (${count(metric.odd, "value")} not a finite number)`) : null);
  if (!metric.values.length) return el("figure", {}, caption);
  const across = metric.values.map((_, i) => (byTime || !hasSteps ? metric.at[i] - first : metric.steps[i]));
  const [low, high] = [Math.min(...across), Math.max(...across)];
  const x = scale(low, high > low ? high : low + 1, false, box.left, box.right);
  if (byTime || !hasSteps) x.ticks = timeTicks(low, x.to, 5);
  const y = roomyScale(metric.values, box.bottom, box.top);
  const d = metric.values.map((value, i) => `${i ? "L" : "M"}${x.at(across[i]).toFixed(1)} ${y.at(value).toFixed(1)}`).join("") + (metric.values.length === 1 ? "h3" : "");
  const last = metric.values.at(-1);
  const titles = { across: byTime || !hasSteps ? "since its submission" : "step" };
  return el("figure", {}, caption,
    svg("svg", { class: "chart", viewBox: `0 0 ${width} 188`, role: "img", "aria-label": `${metric.name}: ${count(metric.values.length, "value")}, the last ${short(last, 4)}` }, ...axes(x, y, box, titles), svg("path", { class: "curve one", d })));
}

// ------------------------------------------------------------------------------------------- all of it

const clockNow = () => Date.now() / 1000;
const moment = (at) => clockText(at, true);

function show() {
  const { row, story } = job;
  document.title = `Job ${id} · Dovetail`;
  $$("#title").textContent = `Job ${id}: ${row.name}`;
  const phase = $$("#phase");
  phase.hidden = false;
  phase.textContent = row.phase + (row.exit_code ? `, exit code ${row.exit_code}` : "");
  $$("#facts").replaceChildren(...story.facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, name === "group" && row.trial !== null ? el("a", { href: `/page/study/${row.group}` }, text) : text)]));
  showDeeds();
  tellEnd();
  showStints();
  showMetrics();
}

const read = latest(() => Promise.all([get(`/v1/jobs/${id}`), get(`/v1/page/jobs/${id}/story`), me()]));

function missing() {
  $$("#title").textContent = `There is no job ${id}`;
  for (const own of document.querySelectorAll("section")) own.hidden = true;
}

async function refresh() {
  let found;
  try { found = await read(); } catch (error) {
    if (error.status !== 404) throw error;
    missing();
  }
  if (!found) return;
  [job.row, job.story, job.caller] = found;
  show();
  if (job.story.owned) showWhy().catch(shown); else say($$("#why"), `It is ${job.row.user}'s: only ${job.row.user} and administrators may ask.`);
  $$("#s-log").hidden = !job.story.owned;
}

async function showWhy() {
  const told = await get(`/v1/jobs/${id}/why`);
  $$("#why").replaceChildren(...whyParts(told.text || told.because));
}

async function begin() {
  const shownNow = get("/v1/page/now").then(({ nodes }) => { job.names = nodeNames(nodes); });
  await Promise.all([shownNow, refresh()]);
  if (job.story) showStints();
  if (job.story?.owned) await log.toEnd();
}

const again = atMost(700, refresh);
onChange((message) => {
  if (!job.row || !message.complete || message.jobs.some((row) => row.id === id)) again();
});
for (const button of document.querySelectorAll('[name="over"]')) button.addEventListener("change", showMetrics);
$$("#search").addEventListener("submit", (event) => { event.preventDefault(); searchLog(log, $$("#wanted").value).catch(shown); });
$$("#to-end").addEventListener("click", () => { $$("#follow").checked = true; log.find = ""; log.toEnd().catch(shown); });
$$("#to-begin").addEventListener("click", () => { $$("#follow").checked = false; log.find = ""; log.to(0).catch(shown); });
setInterval(() => {
  if (document.hidden || !job.story?.owned || !$$("#follow").checked || job.over) return;
  job.over = ENDED.includes(job.row.phase) && log.upto >= log.end && log.end > 0;
  log.follow().catch(shown);
}, FOLLOW_MS);
begin().catch(shown);

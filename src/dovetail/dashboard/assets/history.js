// What was used, by whom, at what cost; and how it would have been under other policies.
const dateText = (at) => (at === null ? "–" : clockText(at));
const money = (value) => (value === null ? "–" : short(value));

const hours = (value) => (value > 0 && value < 0.001 ? "<0.001" : short(value));

const MONEY = "Money";
const GROUPS = [
  ["Jobs", (row) => row.jobs], ["Finished", (row) => row.finished], ["Failed", (row) => row.failed], ["Cancelled", (row) => row.cancelled],
  ["GPU-hours", (row) => row.gpu_hours, hours], ["Lost of these", (row) => row.lost_gpu_hours, hours], ["Energy (kWh)", (row) => row.energy_kwh, money], [MONEY, (row) => row.money, (value) => (value === null ? "–" : moneyText(value))],
  ["Mean wait", (row) => row.mean_wait_s, duration], ["9 of 10 waited less than", (row) => row.p90_wait_s, duration], ["Preemptions", (row) => row.preemptions],
];

function wanted() {
  const days = $$("#days").value;
  const fields = { user: $$("#user").value.trim(), tenant: $$("#tenant").value.trim(), model: $$("#model").value.trim(), name: $$("#name").value.trim(), phase: $$("#phase").value };
  if (days) fields.since = String(Math.floor(Date.now() / 1000 - 86400 * Number(days)));
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value));
}

function table(place, caption, heads, texts, rows) {
  rememberedSort(place, (own) => own.replaceChildren(
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", { class: "keys" }, ...heads.map((name, i) => el("th", { scope: "col", class: texts.includes(i) ? "text" : null }, name)))),
    el("tbody", {}, ...rows)));
}

function showGroups(told, by) {
  const rows = told.groups.map((row) => el("tr", {}, el("th", { scope: "row" }, row.key || `(no ${by})`),
    ...GROUPS.map(([, of, text]) => el("td", { "data-value": of(row) ?? "Infinity" }, (text ?? plain)(of(row))))));
  table($$("#groups"), `Usage by ${by}`, [by[0].toUpperCase() + by.slice(1), ...GROUPS.map(([name]) => (name === MONEY && told.currency ? `${MONEY} (${told.currency})` : name))], [0], rows);
  const costs = told.uncosted ? `Energy and money: ${told.uncosted}.` : "Energy and money of the whole daemon in that time, shared out by GPU-hours.";
  $$("#groups-note").textContent = `${told.all ? "" : "Only the newest jobs were looked at. "}${costs}`;
}

const JOBS = ["Job", "Name", "User", "Phase", "GPUs", "Ended", "Waited", "Ran", "GPU-hours", "Preemptions"];
function showJobs(told) {
  const rows = told.jobs.map((row) => {
    const used = (row.gpus * row.share * row.run_s) / 3600;
    const waited = (row.started_at ?? row.ended_at) - row.submitted_at;
    const link = (text, more) => el("a", { href: `/page/job/${row.id}`, ...more }, text);
    const text = (value) => el("td", { class: "text" }, value);
    const number = (value, shown) => el("td", { "data-value": value }, shown);
    return el("tr", {}, el("th", { scope: "row", "data-value": row.id }, link(row.id)), text(link(row.name, { tabindex: "-1" })), text(row.user),
      text(row.phase + (row.exit_code ? `, exit code ${row.exit_code}` : "")), number(row.gpus, String(row.gpus)), number(row.ended_at, dateText(row.ended_at)),
      number(waited, duration(Math.max(waited, 0))), number(row.run_s, duration(row.run_s)), number(used, hours(used)), number(row.preemptions, String(row.preemptions)));
  });
  $$("#jobs").hidden = $$("#groups").hidden = !told.total;
  $$("#no-jobs").hidden = told.total > 0;
  table($$("#jobs"), "Ended jobs, the newest first", JOBS, [0, 1, 2, 3], rows);
  $$("#jobs-note").textContent = told.total > told.jobs.length ? `The newest ${plain(told.jobs.length)} of ${plain(told.total)}; the CSV file has all.` : "";
}

const read = latest((query) => get(`/v1/page/usage?${query}`));
async function refresh() {
  const query = wanted();
  $$("#csv").href = `/v1/page/usage.csv?${query}`;
  const by = $$("#by").value;
  query.set("by", by);
  const told = await read(query);
  if (!told) return;
  showGroups(told, by);
  showJobs(told);
}

// ---------------------------------------------------------------------------------------- replay

let asking = null;
async function showReplay() {
  clearTimeout(asking);
  const told = await get("/v1/page/replay");
  if (told.state === "none") return;
  const bar = el("progress", { max: 1, value: told.part, "aria-label": "Replay" });
  const parts = told.state === "done" ? [el("a", { href: "/v1/page/replay/report", target: "_blank", rel: "noopener" }, `The comparison of ${told.policies.join(", ")} over ${count(told.jobs, "job")}`)]
    : told.state === "failed" ? [el("span", { class: "bad" }, `It failed: ${told.text}`)] : [bar, ` ${percent(told.part).replace(/\.\d+/, "")} ${told.text}`];
  $$("#replay-state").replaceChildren(el("p", {}, ...parts));
  if (told.state === "running") asking = setTimeout(() => showReplay().catch(shown), 700);
}

async function begin(event) {
  event.preventDefault();
  const since = wanted().get("since");
  const policies = $$("#policies").value.split(",").map((own) => own.trim()).filter(Boolean);
  try {
    await post("/v1/page/replay", { policies, since: since ? Number(since) : null });
    await showReplay();
  } catch (error) { $$("#replay-state").replaceChildren(el("p", { class: "bad" }, error.message)); }
}

$$("#which").addEventListener("submit", (event) => { event.preventDefault(); refresh().catch(shown); });
for (const selector of ["#days", "#phase", "#by"]) $$(selector).addEventListener("change", () => refresh().catch(shown));
$$("#replay").addEventListener("submit", begin);
const again = atMost(5000, refresh);
onChange((message) => { if (message.complete && message.jobs.some((row) => row.ended_at !== null)) again(); });
refresh().catch(shown);
showReplay().catch(shown);

// The page Now: figures, a lane for each GPU, who runs and who waits.
const now = { told: null, running: new Map(), past: [], ahead: null, starts: {}, line: [], waits: 0, exact: true, ahead_s: 0, names: new Map(), cost: null };
const clockNow = () => Date.now() / 1000 + now.ahead_s;

const figure = (name, value, unit = "") => el("div", {}, el("dt", {}, name), el("dd", {}, value, unit ? el("small", {}, ` ${unit}`) : null));
const gpuText = (row) => (row.share === 1 || !row.gpus ? String(row.gpus) : short(row.share * row.gpus));

// ------------------------------------------------------------------------------------------ figures

function showFigures() {
  const { told } = now;
  const rows = [...now.running.values()];
  const all = told.nodes.reduce((sum, node) => sum + (node.up ? node.gpus.length : 0), 0);
  const used = rows.reduce((sum, row) => sum + row.share * row.gpus, 0);
  const drawn = told.nodes.flatMap((node) => node.watts).filter((own) => own !== null);
  const watts = drawn.length ? [plain(drawn.reduce((sum, own) => sum + own, 0)), "W"] : ["–", "not measured"];
  $$("#figures").replaceChildren(
    figure("GPUs in use", short(used), `of ${plain(all)}`), figure("Running", plain(rows.length)),
    figure("Waiting", plain(told.waiting)), figure("Power", ...watts),
    figure("Cost of this hour", ...(now.cost ?? ["–"])), figure("Policy", told.policy),
  );
  $$("#trouble").hidden = !told.trouble;
  $$("#trouble").textContent = told.trouble;
}

async function renewCost() {
  const told = await get("/v1/page/cost");
  now.cost = told.file !== "none" ? [moneyText(told.total_cost), `${told.currency} for ${short(told.energy_kwh)} kWh`.trim()] : told.energy_kwh ? [`${short(told.energy_kwh)}`, "kWh, no prices given"] : ["–", "no prices given"];
  showFigures();
}

// ------------------------------------------------------------------------------------------- lanes

function lanesPlan() {
  if (!now.told) return null;
  const rows = [];
  const rowOf = new Map();
  for (const node of now.told.nodes) {
    node.gpus.forEach((gpu, place) => {
      rowOf.set(`${node.number}/${gpu}`, rows.length);
      const text = now.told.nodes.length > 1 ? (place ? `  ${gpu}` : `${node.id} ${gpu}`) : `GPU ${gpu}`;
      rows.push({ text, place, first: place === 0, strange: node.strangers.includes(gpu), closed: node.closed[place] });
    });
  }
  const at = clockNow();
  const boxes = boxesOf(laneStints(at), rowOf);
  const colour = $$("#colour").value === "user" ? (box) => hashColour(box.user) : (box) => hashColour(box.id);
  return { at, rows, boxes, colour, label: `Lanes of ${count(rows.length, "GPU")}: the past hour and the hour expected. The lists below say the same.` };
}

function laneStints(at) {
  const end = at + LANES.span;
  const here = [...now.running.values()].map((row) => ({ ...row, from: row.since, to: at }));
  const before = now.past.map((stint) => ({ ...stint, from: stint.since, to: stint.until }));
  const later = (now.ahead?.stints ?? []).map((stint) => ({
    ...stint, from: Math.max(stint.since, at), to: Math.min(stint.until ?? end, end), open: stint.until === null, future: true,
  }));
  return [...before, ...here, ...later.filter((stint) => stint.to > at)];
}

const lanes = new Lanes($$("#lanes"), lanesPlan);

// -------------------------------------------------------------------------------------- the lists

const jobLink = (row, text = row.id, more = {}) => el("span", { role: "cell" }, el("a", { href: `/page/job/${row.id}`, ...more }, text));
const nameLink = (row) => jobLink(row, row.name, { tabindex: "-1" });

const running = new VirtualList($$("#running"), {
  label: "Running jobs", columns: 6, most: 330,
  load: async (first, most) => { const rows = [...now.running.values()]; return { total: rows.length, rows: rows.slice(first, first + most) }; },
  draw: (row, place, element) => {
    patch(element, [jobLink(row), nameLink(row), cell(row.user), cell(places(row.on, now.names)), cell(duration(Math.max(0, clockNow() - row.since))), cell(untilText(row))]);
  },
});

const queue = new VirtualList($$("#queue"), {
  label: "Queue", columns: 8,
  load: async (first, most) => {
    const user = $$("#mine").checked ? `&user=${encodeURIComponent((await me()).user)}` : "";
    const told = await get(`/v1/page/line?first=${first}&most=${most}${user}`);
    Object.assign(now, { line: told.rows, waits: told.total, exact: told.exact });
    showQueueNote();
    $$("#queue-heads").hidden = !told.total;
    askStarts(told.rows.map((row) => row.id));
    if (told.seq < live.seq) refreshQueue(); // the loop was busy: this is from before
    return told;
  },
  draw: (row, place, element) => {
    const waits = duration(Math.max(0, clockNow() - row.submitted_at));
    element.classList.toggle("chosen", row.id === chosen);
    patch(element, [
      cell(String(place + 1), "number"), jobLink(row), nameLink(row), cell(row.user), cell(gpuText(row), "number"), cell(waits),
      el("span", { role: "cell" }, el("button", { type: "button", class: "link", "data-job": row.id, onclick: () => showWhy(row.id) }, startText(row), el("span", { class: "unseen" }, `: why job ${row.id} waits`))),
      cell(row.note),
    ]);
  },
});

// Some start before others that stand before them.
function overtakes() {
  let latest = 0;
  return now.line.filter((row) => !row.held && row.id in now.starts).some((row) => {
    const start = now.starts[row.id]?.expected ?? Infinity;
    const sooner = start < latest - 1;
    latest = Math.max(latest, start);
    return sooner;
  });
}

function showQueueNote() {
  const place = now.exact ? "" : "Those that may start soon come first; under this policy nobody's exact place is known. ";
  const sooner = overtakes() ? "Who stands further down may start sooner: it fits where those before it do not, or its turn comes by then. " : "";
  $$("#queue-note").textContent = now.waits ? `${place}${sooner}` : "Nothing waits.";
}

// Until when it has its GPUs, as foreseen: it ends then, or gives way.
function untilText(row) {
  const stays = now.ahead?.stints.filter((own) => own.id === row.id) ?? [];
  if (!stays.length) return "";
  const stay = stays.find((own) => own.until === null || own.until > clockNow()) ?? stays.at(-1);
  return stay.until === null ? "unknown" : `${awayText(stay.until)}${guessMark(stay)}`;
}

const guessMark = (own) => (own.guess ? " ?" : "");

function awayText(at) {
  const away = at - clockNow();
  return away < 1 ? "any moment" : `in ${duration(away)}`;
}

function startText(row) {
  const span = now.starts[row.id];
  if (row.held) return "held";
  if (!span) return row.id in now.starts ? "unknown" : "why?";
  return `${awayText(span.expected)}${guessMark(span)}`;
}

let chosen = "";
async function showWhy(id) {
  chosen = id;
  const place = $$("#why");
  let told;
  try { told = await get(`/v1/jobs/${id}/why`); } catch (error) { told = { text: error.message }; }
  place.replaceChildren(
    el("h3", {}, `Why job ${id} waits`), ...whyParts(told.text || told.because),
    el("p", {}, el("a", { href: `/page/job/${id}` }, `All about job ${id}`)),
  );
  place.hidden = false;
  place.scrollIntoView({ block: "nearest" });
  queue.redraw();
}

// ------------------------------------------------------------------------------- what is new

function take(row, at) {
  const before = now.running.get(row.id);
  const runs = row.placement.length > 0 && row.ended_at === null;
  const stays = before && runs && JSON.stringify(before.on) === JSON.stringify(row.placement);
  if (before && !stays) {
    now.running.delete(row.id);
    now.past.push({ ...before, until: at, end: runs ? "moved" : row.phase === "suspended" || row.phase === "queued" ? "preempted" : row.phase });
  }
  if (!runs) return;
  const gpus = row.placement.reduce((sum, piece) => sum + piece.gpus.length, 0);
  now.running.set(row.id, { ...row, gpus, on: row.placement, since: stays ? before.since : at });
}

function takeNode(told) {
  const node = now.told.nodes.find((own) => own.id === told.id);
  if (!node) return refreshAll();
  node.strangers = told.gpus.filter((gpu) => gpu.strangers).map((gpu) => gpu.index);
  Object.assign(node, { up: told.up, open: told.open, closed: told.gpus.map((gpu) => gpu.closed) });
}

// Who runs is shown before the past hour has come, which takes longer.
const readAnew = latest(async () => {
  const past = get("/v1/page/past");
  past.catch(() => {}); // told by whoever waits for it below
  const told = await get("/v1/page/now");
  if (!now.told) takeAll(told, []);
  return [told, await past];
});

async function anew() {
  const found = await readAnew();
  if (!found) return;
  const [told, past] = found;
  if (told.seq < live.seq) refreshAll();
  takeAll(told, past.stints);
}

function takeAll(told, past) {
  now.told = told;
  now.past = past;
  now.ahead_s = told.at - Date.now() / 1000;
  now.names = nodeNames(told.nodes);
  now.running = new Map(told.running.map((row) => [row.id, row]));
  show();
}

function showNote() {
  const strangers = now.told.nodes.some((node) => node.strangers.length) ? " A grey mark: processes use the GPU that are not ours." : "";
  const { nodes } = now.told;
  const shut = nodes.filter((node) => node.closed.some(Boolean)).map((node) => `${nodes.length > 1 ? `${node.id}: ` : ""}${closedText(node.gpus, node.closed)}`);
  const closed = shut.length ? ` ${shut.join("; ")}.` : "";
  const guess = [...(now.ahead?.stints ?? []), ...Object.values(now.starts)].some((own) => own?.guess) ? " ?: a guess: it rests on a job of which none like it has finished." : "";
  const limited = now.ahead?.limited ? ` Note: ${now.ahead.limited}.` : "";
  $$("#lanes-note").textContent = `Lighter, to the right of now: what is expected.${strangers}${closed}${guess}${limited}`;
}

function show() {
  const { at } = { at: clockNow() };
  now.past = now.past.filter((stint) => stint.until > at - LANES.span);
  showFigures();
  showNote();
  lanes.draw();
  running.renew();
  $$("#no-running").hidden = now.running.size > 0;
  $$("#running-heads").hidden = !now.running.size;
}

let wanted = [];
const askAhead = latest(() => get(`/v1/page/ahead?ids=${wanted.join(",")}`));
const renewAhead = atMost(1000, async () => {
  const found = await askAhead();
  if (!found) return;
  now.ahead = found;
  now.starts = found.starts;
  showQueueNote();
  if (now.told) showNote();
  lanes.draw();
  queue.redraw();
  running.redraw();
});
function askStarts(ids) {
  wanted = ids.slice(0, 500);
  if (ids.some((id) => !(id in now.starts))) renewAhead();
}

const refreshAll = atMost(250, anew);
const refreshQueue = atMost(500, () => queue.renew());
const refreshCost = atMost(10000, renewCost);
// A job that goes on running and reports moves nobody in the queue.
const movesTheQueue = (message) => !message.complete || message.settings || message.jobs.some((row) => row.phase !== "running" || !now.running.has(row.id));
onChange((message) => {
  const moved = movesTheQueue(message);
  if (!message.complete || !now.told) refreshAll();
  else {
    for (const row of message.jobs) take(row, message.at);
    for (const node of message.nodes) takeNode(node);
    Object.assign(now.told, { waiting: message.counts.waiting, at: message.at });
    show();
  }
  if (message.settings && message.seq) refreshAll();
  if (moved) {
    refreshQueue();
    renewAhead();
  }
  refreshCost();
});
for (const name of ["#colour", "#mine"]) $$(name).addEventListener("change", () => { lanes.draw(); queue.renew(); });
const whenSeen = (work) => () => { if (now.told && !document.hidden) work(); };
setInterval(whenSeen(() => lanes.draw()), 5000);
setInterval(whenSeen(() => { running.redraw(); queue.redraw(); }), 1000);

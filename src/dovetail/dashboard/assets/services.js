// Services: load, latency against what was promised, replicas awake and asleep.
const seconds = (value) => (value ? latency(value) : "–");
const history = new Map(); // by service: load and latency lately, for the curves
const MOST = 240;

const sloText = (own) => (own.slo_s === null ? "no SLO" : `SLO ${latency(own.slo_s)} for ${percent(own.percentile > 1 ? own.percentile / 100 : own.percentile)}`);
const isLate = (own) => own.slo_s !== null && own.p99_s > own.slo_s;

function figures(own) {
  const asleep = own.replicas.filter((replica) => replica.state === "asleep").length;
  const awake = own.replicas.filter((replica) => !["asleep", "waiting"].includes(replica.state)).length;
  const { cost } = own;
  const figure = (name, value, unit = "", bad = false) => el("div", {}, el("dt", {}, name), el("dd", { class: bad ? "bad" : null }, value, unit ? el("small", {}, ` ${unit}`) : null));
  return el("dl", { class: "figures" },
    figure("Requests a second", short(own.rate)), figure("Half within", seconds(own.p50_s)),
    figure("99 of 100 within", seconds(own.p99_s), `${sloText(own)}${isLate(own) ? ", exceeded" : ""}`, isLate(own)),
    figure("Replicas awake", String(awake), `${asleep} asleep; ${own.least} to ${own.most} allowed`),
    figure("In flight", plain(own.in_flight), own.queued ? `${plain(own.queued)} queued` : ""),
    figure("Answered", plain(own.answered), `${plain(own.late)} late, ${plain(own.refused)} refused, ${plain(own.failed)} failed`),
    figure("Cost of 1,000 requests", ...costOfThousand(cost)));
}

// Money where prices are known; GPU time is known in any case, once something was answered.
function costOfThousand(cost) {
  const gpus = cost.gpu_s_per_thousand === null ? "" : `${duration(cost.gpu_s_per_thousand)} of a GPU`;
  if (cost.per_thousand) return [moneyText(cost.per_thousand, cost.currency), gpus];
  return gpus ? [gpus, "no prices known"] : ["–", "nothing answered yet"];
}

// ---------------------------------------------------------------------------------------- curves

function curves(own) {
  const points = history.get(own.id) ?? [];
  if (points.length < 2) return "";
  const rates = points.map((point) => ({ at: point.at, value: point.rate }));
  const latencies = (name) => points.map((point) => ({ at: point.at, value: point[name] || null })); // nobody was answered
  return el("div", { class: "small-charts" },
    curve(points, [{ name: "Load", class: "one", points: rates }], "requests a second", `Load of ${own.name}`),
    curve(points, [
      { name: "half within", class: "half", points: latencies("p50_s") },
      { name: "99 of 100 within", class: "one", points: latencies("p99_s") },
    ], "seconds to an answer", `Latency of ${own.name}`, own.slo_s));
}

function curve(points, lines, up, caption, bound = null) {
  const width = 460;
  const box = { left: FRAME.left, right: width - 8, top: FRAME.top, bottom: 120 };
  const [from, to] = [points[0].at, points.at(-1).at];
  const x = { ...scale(0, Math.max(to - from, 1), false, box.left, box.right), ticks: timeTicks(0, Math.max(to - from, 1), 5) };
  const highest = Math.max(...lines.flatMap((line) => line.points.map((point) => point.value)), bound ?? 0, lines.length > 1 ? 1e-3 : 1);
  const y = scale(0, highest * 1.05, false, box.bottom, box.top);
  const path = (line) => line.points.map((point, i, all) => (point.value === null ? "" : `${(all[i - 1]?.value ?? null) === null ? "M" : "L"}${x.at(point.at - from).toFixed(1)} ${y.at(point.value).toFixed(1)}`)).join("");
  const limit = bound === null ? [] : [svg("line", { class: "bound", x1: box.left, x2: box.right, y1: y.at(bound), y2: y.at(bound) })];
  const key = lines.length > 1 ? ` (${lines.map((line) => line.name).join(": thin; ")}: thick${bound === null ? "" : "; SLO: dashed"})` : "";
  return el("figure", {}, el("figcaption", {}, `${caption}${key}`),
    svg("svg", { class: "chart", viewBox: `0 0 ${width} 158`, role: "img", "aria-label": `${caption}: ${up}, since this page was opened` },
      ...axes(x, y, box, { across: "since this page was opened", up }), ...limit, ...lines.map((line) => svg("path", { class: `curve ${line.class}`, d: path(line) }))));
}

function replicas(own) {
  return el("div", { class: "scroll", tabindex: 0, "data-key": `${own.id} replicas`, role: "region", "aria-label": `Replicas of ${own.name}` }, el("table", {}, el("caption", { class: "unseen" }, `Replicas of ${own.name}`),
    el("thead", {}, el("tr", { class: "keys" }, ...["Replica", "Job", "State", "Port", "In flight"].map((head, i) => el("th", { scope: "col", class: i < 3 ? "text" : null }, head)))),
    el("tbody", {}, ...own.replicas.map((replica) => el("tr", {}, el("th", { scope: "row" }, String(replica.number)), el("td", { class: "text" }, replica.job ? el("a", { href: `/page/job/${replica.job}` }, replica.job) : "–"),
      el("td", { class: "text" }, replica.state), el("td", {}, String(replica.port)), el("td", {}, plain(replica.in_flight)))))));
}

const DEEDS = [["pause", "Pause", (own) => own.state !== "paused"], ["resume", "Resume", (own) => own.state === "paused"]];
function deeds(own, caller) {
  if (!caller.admin && caller.user !== own.user) return "";
  return el("p", {}, ...DEEDS.filter(([, , may]) => may(own)).flatMap(([what, label]) => [
    el("button", { type: "button", class: "plain", "data-key": `${own.id} deed`, onclick: () => post(`/v1/services/${encodeURIComponent(own.id)}/${what}`).then(refresh).catch((error) => report(error.message)) }, label), " ",
    el("code", { class: "soft" }, `dovetail services ${what} ${own.name}`), " "]));
}

function section(own, caller) {
  return el("section", { "aria-label": `Service ${own.name}` },
    el("div", { class: "head-line" }, el("h2", {}, own.name), el("span", { class: "phase" }, own.state)),
    figures(own), ...(own.trouble ? [el("p", { class: "bad" }, own.trouble)] : []), ...(own.why ? [el("p", { class: "hint" }, own.why)] : []),
    curves(own), replicas(own), el("p", { class: "hint" }, "Address: ", el("code", {}, own.address), `, user ${own.user}`), deeds(own, caller));
}

const read = latest(() => Promise.all([get("/v1/services"), me()]));
async function refresh() {
  const found = await read();
  if (!found) return;
  const [{ services }, caller] = found;
  for (const own of services) history.set(own.id, [...(history.get(own.id) ?? []), { at: Date.now() / 1000, rate: own.rate, p50_s: own.p50_s, p99_s: own.p99_s }].slice(-MOST));
  $$("#none").hidden = services.length > 0;
  const key = document.activeElement?.dataset.key;
  $$("#services").replaceChildren(...services.map((own) => section(own, caller)));
  if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true }); // it stays where it was
}

const again = atMost(1000, refresh);
onChange((message) => { if (!message.complete || message.services.length) again(); });
setInterval(() => { if (!document.hidden) again(); }, 3000); // load changes without an entry in the journal

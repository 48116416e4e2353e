// Services: load, latency against what was promised, replicas awake and asleep.
const seconds = (value) => (value ? duration(value) : "–");
const history = new Map(); // by service: the last loads, for the curve
const MOST = 240;

function figures(own) {
  const awake = own.replicas.filter((replica) => !["asleep", "waiting"].includes(replica.state)).length;
  const slo = own.slo_s === null ? "no SLO" : `SLO ${duration(own.slo_s)} for ${percent(own.percentile > 1 ? own.percentile / 100 : own.percentile)}`;
  const figure = (name, value, unit = "", bad = false) => el("div", {}, el("dt", {}, name), el("dd", { class: bad ? "bad" : null }, value, unit ? el("small", {}, ` ${unit}`) : null));
  return el("dl", { class: "figures" },
    figure("Requests a second", short(own.rate)), figure("Half within", seconds(own.p50_s)),
    figure("99 of 100 within", seconds(own.p99_s), slo, own.slo_s !== null && own.p99_s > own.slo_s),
    figure("Replicas awake", String(awake), `of ${own.replicas.length}; ${own.least} to ${own.most} wanted`),
    figure("In flight", plain(own.in_flight), own.queued ? `${plain(own.queued)} queued` : ""),
    figure("Answered", plain(own.answered), `${plain(own.late)} late, ${plain(own.refused)} refused, ${plain(own.failed)} failed`));
}

function curve(own) {
  const points = history.get(own.id) ?? [];
  if (points.length < 2) return "";
  const width = 640;
  const box = { left: FRAME.left, right: width - 8, top: FRAME.top, bottom: 120 };
  const [from, to] = [points[0].at, points.at(-1).at];
  const x = { ...scale(0, Math.max(to - from, 1), false, box.left, box.right), ticks: timeTicks(0, Math.max(to - from, 1), 6) };
  const y = scale(0, Math.max(...points.map((point) => point.rate), 1e-3) * 1.05, false, box.bottom, box.top);
  const d = points.map((point, i) => `${i ? "L" : "M"}${x.at(point.at - from).toFixed(1)} ${y.at(point.rate).toFixed(1)}`).join("");
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} 158`, role: "img", "aria-label": `Requests a second to ${own.name} since this page was opened` },
    ...axes(x, y, box, { across: "since this page was opened", up: "requests a second" }), svg("path", { class: "curve one", d }));
}

function replicas(own) {
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Replicas of ${own.name}` }, el("table", {}, el("caption", { class: "unseen" }, `Replicas of ${own.name}`),
    el("thead", {}, el("tr", { class: "keys" }, ...["Replica", "Job", "State", "Port", "In flight"].map((head, i) => el("th", { scope: "col", class: i < 3 ? "text" : null }, head)))),
    el("tbody", {}, ...own.replicas.map((replica) => el("tr", {}, el("th", { scope: "row" }, String(replica.number)), el("td", { class: "text" }, replica.job ? el("a", { href: `/page/job/${replica.job}` }, replica.job) : "–"),
      el("td", { class: "text" }, replica.state), el("td", {}, String(replica.port)), el("td", {}, plain(replica.in_flight)))))));
}

const DEEDS = [["pause", "Put to sleep", (own) => own.state !== "paused"], ["resume", "Resume", (own) => own.state === "paused"]];
function deeds(own, caller) {
  if (!caller.admin && caller.user !== own.user) return "";
  return el("p", {}, ...DEEDS.filter(([, , may]) => may(own)).flatMap(([what, label]) => [
    el("button", { type: "button", class: "plain", onclick: () => post(`/v1/services/${encodeURIComponent(own.id)}/${what}`).then(refresh).catch((error) => report(error.message)) }, label), " ",
    el("code", { class: "soft" }, `dovetail services ${what} ${own.name}`), " "]));
}

function section(own, caller) {
  return el("section", { "aria-label": `Service ${own.name}` },
    el("div", { class: "head-line" }, el("h2", {}, own.name), el("span", { class: "phase" }, own.state)),
    figures(own), ...(own.trouble ? [el("p", { class: "bad" }, own.trouble)] : []), ...(own.why ? [el("p", { class: "hint" }, own.why)] : []),
    curve(own), replicas(own), el("p", { class: "hint" }, "Address: ", el("code", {}, own.address), `, user ${own.user}`), deeds(own, caller));
}

const read = latest(() => Promise.all([get("/v1/services"), me()]));
async function refresh() {
  const found = await read();
  if (!found) return;
  const [{ services }, caller] = found;
  for (const own of services) history.set(own.id, [...(history.get(own.id) ?? []), { at: Date.now() / 1000, rate: own.rate }].slice(-MOST));
  $$("#none").hidden = services.length > 0;
  if (!$$("#services").contains(document.activeElement)) $$("#services").replaceChildren(...services.map((own) => section(own, caller)));
}

const again = atMost(1000, refresh);
onChange((message) => { if (!message.complete || message.services.length) again(); });
setInterval(() => { if (!document.hidden) again(); }, 3000); // load changes without an entry in the journal

// Nodes, tenants, limits, and the policy with a switch that first says what it would change.
const cluster = { caller: null };

function table(place, caption, heads, texts, rows) {
  rememberedSort(place, (own) => own.replaceChildren(
    el("caption", { class: "unseen" }, caption),
    el("thead", {}, el("tr", { class: "keys" }, ...heads.map((name, i) => el("th", { scope: "col", class: texts.includes(i) ? "text" : null }, name)))),
    el("tbody", {}, ...rows)));
}
const number = (value, text = plain) => el("td", { "data-value": value ?? "Infinity" }, value === null ? "–" : text(value));
const text = (value) => el("td", { class: "text" }, value);

function nodeRow(node) {
  const jobs = new Set(node.gpus.flatMap((gpu) => gpu.jobs.map((own) => own.job)));
  const users = new Set(node.gpus.flatMap((gpu) => gpu.jobs.map((own) => own.user)));
  const closed = closedText(node.gpus.map((gpu) => gpu.index), node.gpus.map((gpu) => gpu.closed));
  const state = [!node.up ? "down" : !node.open ? "closed" : "up", closed].filter(Boolean).join("; ");
  const strangers = node.gpus.filter((gpu) => gpu.strangers).map((gpu) => gpu.index);
  return el("tr", {}, el("th", { scope: "row" }, node.id), text(node.kind), text(state), number(node.gpus.length), number(node.free), number(jobs.size), text([...users].join(", ") || "–"),
    text(strangers.length ? `GPU ${spans(strangers)}` : "–"), number(node.gpu_memory_gb || null, short), number(node.cpus, short), number(node.memory_gb, short));
}

async function showNodes() {
  const { nodes } = await get("/v1/nodes");
  table($$("#nodes"), "Nodes", ["Node", "Kind", "State", "GPUs", "Free", "Jobs", "Users", "Used by strangers", "GPU memory (GB)", "CPUs", "Memory (GB)"], [0, 1, 2, 6, 7], nodes.map(nodeRow));
}

async function showTenants() {
  const { tenants } = await get("/v1/tenants");
  $$("#no-tenants").hidden = tenants.length > 0;
  $$("#tenants").hidden = !tenants.length;
  const all = (names) => names.join(", ") || "–";
  table($$("#tenants"), "Tenants", ["Tenant", "Holds", "Quota (GPUs)", "Weight", "Users", "Groups"], [0, 4, 5],
    tenants.map((own) => el("tr", {}, el("th", { scope: "row" }, own.name), number(own.gpus, short), number(own.gpu_quota, short), number(own.weight, short), text(all(own.users)), text(all(own.groups)))));
}

async function showLimits() {
  const { limits, shared } = await get("/v1/limits");
  $$("#s-limits").hidden = !shared;
  const of = (own, name) => text(`${own.used && own.used[name] !== null && own.used[name] !== undefined ? `${short(own.used[name])} of ` : ""}${own[name] === null ? "no limit" : short(own[name])}`);
  const names = ["queued", "running", "gpus", "gpu_hours", "megabytes"];
  table($$("#limits"), "Limits", ["User", "Jobs", "At once", "GPUs", "GPU-hours in 30 days", "MB a day"], [0, 1, 2, 3, 4, 5],
    limits.map((own) => el("tr", {}, el("th", { scope: "row" }, own.user === "*" ? "everybody" : own.user), ...names.map((name) => of(own, name)))));
}

async function showHealth() {
  const health = await get("/v1/health");
  $$("#policy").textContent = health.policy;
  $$("#trouble").textContent = health.trouble;
  const notices = [...health.notices, ...health.power, health.costs, health.threads, health.full ? "The disk is full: no job is accepted." : ""].filter(Boolean);
  $$("#s-notices").hidden = !notices.length;
  $$("#notices").replaceChildren(...notices.map((own) => el("li", {}, own)));
  $$("#acknowledge").hidden = !cluster.caller.admin || !health.notices.length;
}

async function showFindings() {
  const { findings } = await get("/v1/findings");
  $$("#findings").replaceChildren(...findings.map((own) => el("li", {}, el("b", {}, own.what), ` (${own.state}): ${own.text}`)));
}

// ---------------------------------------------------------------------------------------- the switch

async function names() {
  const told = await get("/v1/page/policies");
  $$("#names").replaceChildren(...told.policies.map((name) => el("option", { value: name })));
  $$("#predictor").append(...told.predictors.map((name) => el("option", {}, name)));
}

const named = () => `${$$("#other").value.trim()}${$$("#predictor").value ? `:predictor=${$$("#predictor").value}` : ""}`;

async function preview(event) {
  event.preventDefault();
  const place = $$("#preview");
  place.replaceChildren(el("p", {}, "The simulator runs the queue under both …"));
  try { showPreview(await post("/v1/page/policy", { policy: named() })); }
  catch (error) { place.replaceChildren(el("p", { class: "bad" }, error.message)); }
}

function showPreview(told) {
  const away = (own) => (own ? duration(Math.max(own.expected - Date.now() / 1000, 0)) : "unknown");
  const mean = told.mean_end_s === null ? "" : ` A job would end ${duration(told.mean_end_then_s)} from now on average, instead of ${duration(told.mean_end_s)}.`;
  const rows = told.rows.filter((own) => own.end && own.end_then && Math.abs(own.end.expected - own.end_then.expected) > 1).slice(0, 20);
  const switching = el("button", { type: "button", class: "plain main", id: "do-switch", onclick: () => setPolicy(told.policy) }, `Let ${told.policy} decide`);
  $$("#preview").replaceChildren(
    el("p", {}, `Under ${told.policy} instead of ${told.instead_of}, of ${count(told.jobs, "job")} ${plain(told.sooner)} would end sooner and ${plain(told.later)} later.${mean}`),
    ...(rows.length ? [el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Jobs that change most" }, el("table", {}, el("caption", { class: "unseen" }, "Jobs that change most"),
      el("thead", {}, el("tr", { class: "keys" }, ...["Job", "Name", "User", "Starts in", "then", "Ends in", "then"].map((head, i) => el("th", { scope: "col", class: i < 3 ? "text" : null }, head)))),
      el("tbody", {}, ...rows.map((own) => el("tr", {}, el("th", { scope: "row" }, el("a", { href: `/page/job/${own.id}` }, own.id)), text(own.name), text(own.user), ...[own.start, own.start_then, own.end, own.end_then].map((when) => el("td", {}, away(when))))))))] : []),
    ...(told.limited ? [el("p", { class: "hint" }, `Not taken into account: ${told.limited}.`)] : []),
    el("p", {}, switching, " ", el("code", { class: "soft" }, `dovetail policy set ${told.policy}`)), el("p", { class: "hint" }, "No job is stopped for it."));
}

async function setPolicy(policy) {
  try {
    await put("/v1/policy", { policy });
    $$("#preview").replaceChildren(el("p", {}, `${policy} decides now.`));
    await showHealth();
  } catch (error) { $$("#preview").append(el("p", { class: "bad" }, error.message)); }
}

// ------------------------------------------------------------------------------------------ all of it

async function begin() {
  cluster.caller = await me();
  $$("#switch").hidden = !cluster.caller.admin;
  await Promise.all([showNodes(), showTenants(), showLimits(), showHealth(), showFindings(), ...(cluster.caller.admin ? [names()] : [])]);
}

const again = atMost(1000, () => Promise.all([showNodes(), showTenants(), showLimits(), showHealth()]));
onChange((message) => { if (cluster.caller && (!message.complete || message.nodes.length || message.settings)) again(); });
$$("#switch").addEventListener("submit", preview);
$$("#acknowledge").addEventListener("click", () => post("/v1/notices/acknowledge").then(showHealth).catch(shown));
begin().catch(shown);

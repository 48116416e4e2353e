// The list of studies.
const COLUMNS = ["Study", "Name", "User", "State", "Rule", "Done", "Running", "Paused", "Failed", "Trials", "Best", "GPU-hours"];
const TEXTS = [0, 1, 2, 3, 4];

function studyRow(study) {
  const link = (text, more) => el("a", { href: `/page/study/${encodeURIComponent(study.id)}`, ...more }, text);
  const cells = [link(study.name, { tabindex: "-1" }), study.user, study.state, study.policy, study.done, study.running, study.paused, study.failed, study.trials, study.best?.value ?? null, study.gpu_hours];
  return el("tr", {},
    el("th", { scope: "row" }, link(study.id)),
    ...cells.map((value, i) => (TEXTS.includes(i + 1) ? el("td", { class: "text" }, value) : el("td", { "data-value": value ?? "Infinity" }, value === null ? "–" : short(value, 4)))));
}

async function refresh() {
  const { studies } = await get("/v1/studies");
  $$("#none").hidden = studies.length > 0;
  $$("#studies").hidden = !studies.length;
  rememberedSort($$("#studies"), (table) => table.replaceChildren(
    el("caption", { class: "unseen" }, "Studies, the open ones first"),
    el("thead", {}, el("tr", { class: "keys" }, ...COLUMNS.map((name, i) => el("th", { scope: "col", class: TEXTS.includes(i) ? "text" : null }, name)))),
    el("tbody", {}, ...studies.map(studyRow))));
}

const again = atMost(1000, refresh);
onChange((message) => { if (!message.complete || message.studies.length) again(); });

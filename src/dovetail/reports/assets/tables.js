// Tables sort by a click on a heading: numbers by data-value, the rest as text.
function sortable(table) {
  const heads = [...table.querySelectorAll("thead tr:last-child th")];
  heads.forEach((head, column) => {
    const button = el("button", { type: "button", onclick: () => sortBy(table, heads, column) });
    button.append(...head.childNodes);
    head.append(button);
  });
}

function sortBy(table, heads, column) {
  const falling = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head, i) => (i === column ? head.setAttribute("aria-sort", falling ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const order = (a, b) => (isNaN(key(a)) || isNaN(key(b)) ? key(a).localeCompare(key(b), "en", { numeric: true }) : key(a) - key(b));
  body.append(...[...body.rows].sort((a, b) => (falling ? order(b, a) : order(a, b))));
}

const SLOW_COLUMNS = ["Job", "User", "GPUs", "Submitted", "Waited", "First start", "Completion time", "Preemptions", "Outcome"];
const SLOW_TIMES = [3, 4, 5, 6];
const SLOW_TEXTS = [0, 1, 8];

function slowestTable(table, rows, choose) {
  const cell = (value, i) => {
    if (i === 0) return el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => choose(value) }, value || "(no id)"));
    if (SLOW_TEXTS.includes(i)) return el("td", { class: "text" }, value);
    const text = value === null ? "never" : SLOW_TIMES.includes(i) ? duration(value) : plain(value);
    return el("td", { "data-value": value ?? Infinity }, text);
  };
  table.replaceChildren(
    el("caption", { class: "unseen" }, "Jobs that waited longest"),
    el("thead", {}, el("tr", { class: "keys" }, ...SLOW_COLUMNS.map((name, i) => el("th", { scope: "col", class: SLOW_TEXTS.includes(i) ? "text" : null }, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map(cell)))),
  );
  if (!rows.length) table.tBodies[0].append(el("tr", {}, el("td", { class: "text", colspan: SLOW_COLUMNS.length }, "No job waited.")));
  else sortable(table);
}

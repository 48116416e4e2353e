// Who had which GPU when; settings against values; the table of trials.
const ROW = 26;

// The better the stronger; the best in the colour of the best.
function trialColour(trial, data) {
  if (trial.number === data.top) return "var(--best)";
  if (trial.rank === null) return "var(--busy)";
  return `color-mix(in oklab, var(--c0) ${Math.round(95 - 80 * trial.rank)}%, var(--idle))`;
}

function gpusChart(holder, data) {
  const height = FRAME.top + FRAME.bottom + ROW * data.places.length;
  return chartOf(holder, height, "Which trial had which GPU when", (box) => {
    const x = { ...scale(0, data.seconds, false, box.left, box.right), ticks: timeTicks(0, data.seconds, (box.right - box.left) / 70) };
    const y = { at: (row) => box.top + ROW * (row + 0.5), ticks: data.places.map((label, at) => ({ at, label })) };
    const stints = data.trials.flatMap((trial) => trial.stints.map(([row, from, to]) => ({ trial, from, to, row, left: x.at(from), right: x.at(to) })));
    const marks = stints.map(({ trial, row, left, right }) => svg("rect", {
      class: "stint", x: left.toFixed(1), y: box.top + ROW * row + 3, width: Math.max(right - left, 1).toFixed(1), height: ROW - 6,
      fill: trialColour(trial, data), "data-trial": trial.number,
    }));
    const find = (px, py) => {
      const row = Math.floor((py - box.top) / ROW);
      const hit = stints.findLast((stint) => stint.row === row && px >= stint.left - 1 && px <= stint.right + 1);
      return hit && { trial: hit.trial, rows: [[data.places[row], `${duration(hit.from)} to ${duration(hit.to)}`], ...trialFacts(hit.trial, data)] };
    };
    return { x, y, titles: { across: "time since the study was opened" }, marks, find };
  });
}

// Numbers on an axis, linear or logarithmic; anything else side by side.
function parameterScale(values, box) {
  const [start, end] = [box.left + 12, box.right - 12];
  if (values.every((value) => typeof value === "number")) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (low === high) return { ...scale(low - 1, high + 1, false, start, end), ticks: [{ at: low, label: short(low) }] };
    return scale(low, high, low > 0 && high >= 50 * low, start, end);
  }
  const names = [...new Set(values.map(String))].sort();
  const at = (value) => start + ((end - start) * (names.indexOf(String(value)) + 0.5)) / names.length;
  return { at, ticks: names.map((name) => ({ at: name, label: name.length > 14 ? `${name.slice(0, 13)}…` : name })) };
}

function settingsCharts(holder, data) {
  const known = data.trials.filter((trial) => trial.best !== null);
  const bests = known.map((trial) => clamp(trial.best, data.low, data.high));
  data.parameters.forEach((name, i) => {
    const trials = known.filter((trial) => trial.settings[i] !== null);
    if (!trials.length) return;
    const place = el("div");
    const share = data.importance[i];
    holder.append(el("figure", {}, el("figcaption", {}, share === null ? name : `${name}: explains ${percent(share)}`), place));
    chartOf(place, 200, `${name} against the best ${data.metric}`, (box) => {
      const x = parameterScale(trials.map((trial) => trial.settings[i]), box);
      const y = roomyScale(bests, box.bottom - 4, box.top + 4);
      const things = trials.map((trial) => ({ trial, px: x.at(trial.settings[i]) + (x.from === undefined ? ((trial.number * 7) % 13) - 6 : 0), py: y.at(trial.best) }));
      const dots = things.map(({ trial, px, py }) => svg("circle", { class: `dot ${trial.number === data.top ? "top" : ""}`, cx: px.toFixed(1), cy: py.toFixed(1), r: trial.number === data.top ? 5 : 3, "data-trial": trial.number }));
      const find = (px, py) => { const hit = closest(things, px, py, 18); return hit && { trial: hit.trial, rows: trialFacts(hit.trial, data) }; };
      return { x, y, titles: { across: "", up: "" }, marks: dots, find };
    });
  });
}

function trialsTable(table, data) {
  const numeric = data.parameters.map((_, i) => data.trials.every((trial) => trial.settings[i] === null || typeof trial.settings[i] === "number"));
  const text = (value) => el("td", { class: "text" }, value);
  const stateCell = (trial) => el("td", { class: "text" }, trial.reason ? `${trial.state}: ${trial.reason}` : trial.state,
    ...(trial.last_line ? [el("code", { class: "last-line", title: "the last line it printed" }, trial.last_line)] : []));
  const number = (value, shown) => el("td", { "data-value": value ?? "Infinity" }, shown);
  const row = (trial) => el("tr", { "data-trial": trial.number, onpointerenter: () => lightUp(trial.number), onpointerleave: () => lightUp(null) },
    el("th", { scope: "row", "data-value": trial.number }, String(trial.number)), number(Number(trial.job), trial.job),
    stateCell(trial), number(trial.steps, plain(trial.steps)),
    number(trial.value, valueText(trial.value)), number(trial.best, trial.number === data.top ? el("strong", {}, valueText(trial.best)) : valueText(trial.best)),
    ...trial.settings.map((value, i) => (value === null ? number(null, "–") : numeric[i] ? number(value, settingText(value)) : text(settingText(value)))));
  const head = (name, isText) => el("th", { scope: "col", class: isText ? "text" : null }, name);
  table.replaceChildren(
    el("caption", { class: "unseen" }, "Trials and their settings"),
    el("thead", {}, el("tr", { class: "keys" }, ...["Trial", "Job", "State", "Steps", `Last ${data.metric}`, "Best"].map((name, i) => head(name, i === 2)), ...data.parameters.map((name, i) => head(name, !numeric[i])))),
    el("tbody", {}, ...data.trials.map(row)),
  );
  sortable(table);
}

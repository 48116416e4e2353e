// How long jobs took: the distribution by size, and the policies side by side.
function quantile(values, time) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= time) low = middle + 1; else high = middle;
  }
  return low / values.length;
}

function cdfChart(holder, runs, shown, size, what = "Completion times of finished jobs") {
  return new LineChart(holder, 260, () => {
    const of = (run) => run.cdfs[size()].at;
    const all = runs.flatMap((run) => of(run)).filter((time) => time > 0);
    const from = Math.max(0.001, Math.min(...all, Infinity) === Infinity ? 1 : Math.min(...all) * 0.9);
    const to = Math.max(from * 10, ...all.map((time) => time * 1.05));
    const points = (values) => [[from, 0], ...values.map((time, i) => [time, (i + 1) / values.length]), [to, 1]];
    const lines = runs.flatMap((run, i) => (shown.has(i) && of(run).length ? [{ run: i, name: run.policy, points: points(of(run)), values: of(run) }] : []));
    return {
      lines,
      x: { from, to, log: true, ticks: (pixels) => logTicks(from, to, pixels) },
      y: { to: 1, ticks: numberTicks(1, 5, percent) },
      title: (at) => `within ${duration(at)}`,
      label: `${what}. Arrow keys read values.`,
      read: ({ values }, at) => { const part = quantile(values, at); return { order: part, text: percent(part) }; },
    };
  });
}

function sizePicker(holder, names, runs, changed) {
  let chosen = 0;
  names.forEach((name, i) => {
    const most = Math.max(0, ...runs.map((run) => run.cdfs[i].count));
    const input = el("input", { type: "radio", name: "size", checked: i === 0, disabled: most === 0, onchange: () => { chosen = i; changed(); } });
    holder.append(el("label", {}, input, ` ${name} (${plain(most)})`));
  });
  return () => chosen;
}

// Mean and p99 on one logarithmic line a policy.
function dots(holder, runs) {
  const rows = runs.map((run, i) => ({ i, run, mean: run.mean_jct_s, tail: run.p99_jct_s })).filter(({ mean, tail }) => mean > 0 && tail > 0);
  if (runs.length < 2 || !rows.length) return;
  rows.sort((a, b) => a.mean - b.mean);
  const values = rows.flatMap(({ mean, tail }) => [mean, tail]);
  const [from, to] = [Math.min(...values) * 0.8, Math.max(...values) * 1.25];
  const left = 170;
  const draw = (width) => {
    const height = rows.length * 22 + 34;
    const x = (at) => left + (width - left - 30) * (Math.log(at / from) / Math.log(to / from));
    const row = ({ i, run, mean, tail }, place) => {
      const y = place * 22 + 16;
      const name = run.policy.length > 24 ? `${run.policy.slice(0, 23)}…` : run.policy;
      return svg("g", {},
        svg("title", {}, `${run.policy}: mean ${duration(mean)}, p99 ${duration(tail)}`),
        svg("text", { class: "name", x: left - 12, y: y + 4, "text-anchor": "end" }, name),
        svg("line", { x1: x(mean), x2: x(tail), y1: y, y2: y, stroke: policyColour(i), "stroke-width": 2, opacity: 0.5 }),
        svg("circle", { cx: x(mean), cy: y, r: 5.5, fill: policyColour(i) }),
        svg("circle", { cx: x(tail), cy: y, r: 4.5, fill: "var(--card)", stroke: policyColour(i), "stroke-width": 2 }));
    };
    const ticks = acrossLabels(logTicks(from, to, width - left - 30), x).flatMap(({ at, label }) => [
      svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 4, y2: height - 22 }),
      svg("text", { x: x(at), y: height - 6, "text-anchor": "middle" }, label),
    ]);
    const label = `Mean and p99 completion time: ${rows.map(({ run, mean }) => `${run.policy} ${duration(mean)}`).join(", ")}`;
    chart.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }, ...ticks, ...rows.map(row)));
  };
  const chart = el("div");
  holder.append(el("figure", {}, el("figcaption", {}, "Completion time: ● mean, ○ p99 (logarithmic, best mean first)"), chart));
  onWidth(chart, draw);
}

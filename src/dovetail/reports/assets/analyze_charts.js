// The charts of an analysis. Each is told by a plan: its kind, names, numbers and units.
const NAMES = 178; // pixels for the names of rows
const PAPER = { wide: 1020, half: 500 }; // pixels of A4 on its side, whatever the window was
const seriesColour = (i) => `var(--c${i % 8})`;
const TEXTS = {
  number: (value) => short(value),
  percent,
  seconds: duration,
  factor: (value) => `${short(value)} ×`,
};
const textOf = (kind) => TEXTS[kind] ?? TEXTS.number;

function ticksFor(axis, kind, pixels) {
  if (axis.log && kind === "seconds") return logTicks(axis.from, axis.to, pixels);
  if (axis.log) {
    const found = powersOfTen(axis.from, axis.to, 40);
    const whole = found.filter((at) => Math.abs(Math.log10(at) % 1) < 1e-6);
    return (whole.length > 2 ? whole : found).map((at) => ({ at, label: textOf(kind)(at) }));
  }
  if (kind === "seconds") return timeTicks(axis.from, axis.to, Math.max(2, pixels / 64));
  return ticksAt(axis.from, axis.to, niceStep((axis.to - axis.from) / Math.max(2, pixels / 64))).map((at) => ({ at, label: textOf(kind)(at) }));
}

// Draws at once, and again when the width changes.
function chart(holder, height, label, paint) {
  const draw = (width) => {
    const box = { left: FRAME.left, right: width - FRAME.right, top: FRAME.top, bottom: height - FRAME.bottom, width, height };
    holder.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }, ...paint(box)));
  };
  if (holder.clientWidth) draw(holder.clientWidth);
  onWidth(holder, draw);
  addEventListener("beforeprint", () => draw(PAPER[holder.closest(".wide") ? "wide" : "half"]));
  addEventListener("afterprint", () => draw(holder.clientWidth));
}

const hovered = (mark, title, rows) => {
  mark.addEventListener("pointermove", (event) => showTip(event, title, rows()));
  mark.addEventListener("pointerleave", hideTip);
  return mark;
};

// An axis that holds all values, from 0 where they are counts.
function span(values, { log = false, zero = true } = {}) {
  const known = values.filter((value) => value !== null && (!log || value > 0));
  let [from, to] = [Math.min(...known), Math.max(...known)];
  if (!known.length) [from, to] = log ? [1, 10] : [0, 1];
  if (log) return [from / 1.15, to * 1.15];
  if (zero) [from, to] = [Math.min(0, from), Math.max(0, to)];
  const room = (to - from) * 0.05 || Math.abs(to) || 1;
  return [from < 0 || !zero ? from - room : from, to > 0 || !zero ? to + room : to];
}

// Upright bars, one or several beside each other for each label.
function barsChart(holder, plan, label) {
  chart(holder, plan.height ?? 230, label, (box) => {
    const text = textOf(plan.as);
    const [from, to] = span(plan.series.flatMap((own) => own.values));
    const y = { ...scale(from, to, false, box.bottom, box.top) };
    y.ticks = ticksFor(y, plan.as, (box.bottom - box.top) * 2.2);
    const slot = (box.right - box.left) / plan.labels.length;
    const wide = Math.min(46, (slot * 0.78) / plan.series.length);
    const x = { at: (place) => box.left + slot * (place + 0.5) };
    const longest = 8 + 6.3 * Math.max(...plan.labels.map((name) => name.length)); // pixels
    const every = Math.max(1, Math.ceil(longest / slot));
    x.ticks = plan.labels.map((name, at) => ({ at, label: name })).filter(({ at }) => at % every === 0);
    const marks = plan.labels.flatMap((name, place) => plan.series.map((own, i) => {
      const value = own.values[place];
      if (value === null) return svg("g");
      const left = x.at(place) - (wide * plan.series.length) / 2 + i * wide;
      const bar = svg("rect", { fill: seriesColour(i), x: left.toFixed(1), width: Math.max(1, wide - 1).toFixed(1), y: Math.min(y.at(value), y.at(0)).toFixed(1), height: Math.max(0.5, Math.abs(y.at(0) - y.at(value))).toFixed(1) });
      return hovered(bar, plan.names?.[place] ?? name, () => plan.series.map((each, k) => [each.name || plan.up, each.values[place] === null ? "–" : text(each.values[place]), plan.series.length > 1 ? swatchOf(k) : null]));
    }));
    return [...axes(x, y, box, { across: plan.across, up: plan.up }), ...marks];
  });
}

const swatchOf = (i) => svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, rx: 2, fill: seriesColour(i) }));

// A row for each name: a bar or dots, with whiskers where there is an interval.
function rowsChart(holder, plan, label) {
  const tall = plan.bars ? 24 : Math.max(24, 11 * plan.series.length + 12);
  const height = plan.rows.length * tall + 62;
  chart(holder, height, label, (box) => {
    const left = Math.min(NAMES, box.width * 0.36);
    const inner = { ...box, left, right: box.right - (plan.bars ? 58 : 10), top: 22, bottom: height - FRAME.bottom };
    const text = textOf(plan.as);
    const all = plan.rows.flatMap((row) => row.values.flatMap((own) => (own === null ? [] : [own.at, own.low ?? own.at, own.high ?? own.at])));
    const [from, to] = plan.range ?? span([...all, ...(plan.levels ?? []).map((own) => own.at)], { log: plan.log, zero: plan.zero ?? true });
    const x = scale(from, to, plan.log, inner.left, inner.right);
    const ticks = ticksFor(x, plan.as, inner.right - inner.left).flatMap(({ at, label: name }) => [
      svg("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: inner.top - 6, y2: inner.bottom }),
      svg("text", { x: x.at(at), y: inner.bottom + 16, "text-anchor": x.at(at) > box.width - 24 ? "end" : "middle" }, name),
    ]);
    const zero = !plan.log && from < 0 && to > 0 ? [svg("line", { class: "zero", x1: x.at(0), x2: x.at(0), y1: inner.top - 6, y2: inner.bottom })] : [];
    const levels = (plan.levels ?? []).flatMap(({ at, name }) => [
      svg("line", { class: "level", x1: x.at(at), x2: x.at(at), y1: inner.top - 6, y2: inner.bottom }),
      svg("text", { class: "level-name", x: x.at(at), y: 12, "text-anchor": x.at(at) > box.width * 0.7 ? "end" : "middle" }, name),
    ]);
    const rows = plan.rows.map((row, place) => {
      const middle = inner.top + tall * (place + 0.5);
      const facts = () => row.values.map((own, i) => [plan.series[i] ?? "", own === null ? "–" : intervalText(own, text), plan.series.length > 1 ? swatchOf(i) : null]);
      const name = row.name.length > 29 ? `${row.name.slice(0, 28)}…` : row.name;
      const group = svg("g", { class: row.faint ? "faint" : null }, svg("text", { class: "name", x: left - 10, y: middle + 4, "text-anchor": "end" }, name),
        svg("rect", { x: 0, y: middle - tall / 2, width: box.width, height: tall, fill: "transparent" }),
        ...row.values.flatMap((own, i) => (own === null ? [] : plan.bars ? barMark(own, x, middle, tall, text) : dotMark(own, i, row, x, middle + (row.values.length > 1 ? (i - (row.values.length - 1) / 2) * 10 : 0)))));
      return hovered(group, row.name, facts);
    });
    return [...ticks, ...zero, ...levels, ...rows, svg("text", { x: box.right, y: inner.bottom + 33, "text-anchor": "end" }, plan.across)];
  });
}

const intervalText = (own, text) => (own.low === null || own.low === undefined ? text(own.at) : `${text(own.at)} (${text(own.low)} to ${text(own.high)})`);
const whisker = (own, x, y) => (own.low === null || own.low === undefined ? [] : [svg("line", { class: "whisker", x1: x.at(own.low), x2: x.at(own.high), y1: y, y2: y })]);

function barMark(own, x, y, tall, text) {
  const [start, end] = [x.at(x.log ? x.from : 0), x.at(own.at)];
  const past = Math.max(end, start, own.high === undefined || own.high === null ? 0 : x.at(own.high));
  return [svg("rect", { class: "bar", x: Math.min(start, end), width: Math.max(1, Math.abs(end - start)), y: y - tall * 0.32, height: tall * 0.64 }), ...whisker(own, x, y),
    svg("text", { x: past + 6, y: y + 4 }, text(own.at))];
}

function dotMark(own, i, row, x, y) {
  const colour = seriesColour(i);
  const dot = { cx: x.at(own.at), cy: y, r: 4.6, fill: row.hollow ? "var(--card)" : colour, stroke: colour, "stroke-width": 2 };
  return [...whisker(own, x, y), svg("circle", dot)];
}

// Lines over a number or a time, with bands where there is an interval.
function linesChart(holder, plan, label) {
  chart(holder, plan.height ?? 260, label, (box) => {
    const [xs, ys] = [plan.lines.flatMap((own) => own.points.map(([at]) => at)), plan.lines.flatMap((own) => own.points.flatMap(([, at, low, high]) => [at, low ?? at, high ?? at]))];
    const [left, right] = plan.x.range ?? (plan.x.log ? span(xs, { log: true }) : [Math.min(...xs), Math.max(...xs)]);
    const x = scale(left, right > left ? right : left + 1, plan.x.log, box.left, box.right);
    x.ticks = ticksFor(x, plan.x.as, box.right - box.left);
    const [low, high] = plan.y.range ?? span([...ys, ...(plan.levels ?? []).map((own) => own.at)], { log: plan.y.log, zero: plan.y.zero ?? true });
    const y = scale(low, high, plan.y.log, box.bottom, box.top);
    y.ticks = ticksFor(y, plan.y.as, plan.y.log && plan.y.as === "seconds" ? (box.bottom - box.top) * 2.4 : (box.bottom - box.top) * 1.7);
    const place = ([at, value]) => `${x.at(at).toFixed(1)} ${y.at(value).toFixed(1)}`;
    const bands = plan.lines.flatMap((own, i) => (own.points.some((point) => point.length > 2) ? [svg("path", { d: `M${own.points.map(([at, value, , top]) => place([at, top ?? value])).join("L")}L${[...own.points].reverse().map(([at, value, bottom]) => place([at, bottom ?? value])).join("L")}Z`, fill: seriesColour(i), opacity: 0.18 })] : []));
    const lines = plan.lines.map((own, i) => svg("path", { d: own.points.map((point, k) => (k && own.step ? `H${x.at(point[0]).toFixed(1)}V${y.at(point[1]).toFixed(1)}` : `${k ? "L" : "M"}${place(point)}`)).join(""), fill: "none", stroke: seriesColour(i), "stroke-width": 2, "stroke-linejoin": "round", "stroke-dasharray": own.dashed ? "6 4" : null }));
    const dots = plan.lines.flatMap((own, i) => (own.points.length <= 40 && !own.step ? own.points.map((point) => svg("circle", { cx: x.at(point[0]), cy: y.at(point[1]), r: 3.2, fill: seriesColour(i) })) : []));
    const levels = (plan.levels ?? []).flatMap(({ at, name }) => [
      svg("line", { class: "level", x1: box.left, x2: box.right, y1: y.at(at), y2: y.at(at) }),
      svg("text", { class: "level-name", x: box.left + 6, y: y.at(at) - (y.at(at) < box.top + 14 ? -14 : 5) }, name),
    ]);
    const cross = svg("line", { class: "cross", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const sheet = svg("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "transparent" });
    sheet.addEventListener("pointermove", (event) => {
      const px = event.clientX - sheet.getBoundingClientRect().left + box.left;
      const near = (own) => own.points.reduce((best, point) => (Math.abs(x.at(point[0]) - px) < Math.abs(x.at(best[0]) - px) ? point : best));
      const found = plan.lines.filter((own) => own.points.length).map((own, i) => [own, near(own), i]);
      if (!found.length) return;
      const at = found.map(([, point]) => point).reduce((best, point) => (Math.abs(x.at(point[0]) - px) < Math.abs(x.at(best[0]) - px) ? point : best))[0];
      for (const end of ["x1", "x2"]) cross.setAttribute(end, x.at(at));
      cross.setAttribute("visibility", "visible");
      showTip(event, `${plan.x.title}: ${textOf(plan.x.as)(at)}`, found.map(([own, point, i]) => [own.name || plan.y.title, textOf(plan.y.as)(point[1]), plan.lines.length > 1 ? swatchOf(i) : null]));
    });
    sheet.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); hideTip(); });
    return [...axes(x, y, box, { across: plan.x.title, up: plan.y.title }), ...bands, ...lines, ...dots, ...levels, cross, sheet];
  });
}

// A table of shades: the darker the more.
function gridChart(holder, plan, label) {
  const tall = 26;
  const height = plan.rows.length * tall + 74;
  chart(holder, height, label, (box) => {
    const left = 88;
    const wide = (box.right - left) / plan.columns.length;
    const most = Math.max(1e-9, ...plan.cells.flat());
    const every = Math.max(1, Math.ceil(30 / wide));
    const cells = plan.cells.flatMap((row, r) => row.map((value, c) => {
      const shade = value < 0 ? "var(--card)" : `color-mix(in oklab, var(--c0) ${Math.round(4 + 92 * Math.sqrt(value / most))}%, var(--card))`;
      const cell = svg("rect", { x: (left + c * wide).toFixed(1), y: 22 + r * tall, width: Math.max(1, wide - 1).toFixed(1), height: tall - 1 });
      cell.style.fill = shade;
      return hovered(cell, `${plan.rows[r]}, ${plan.columns[c]}`, () => [[plan.unit, value < 0 ? "never seen" : short(value)]]);
    }));
    const key = [0, 0.25, 0.5, 0.75, 1].flatMap((part, i) => {
      const swatch = svg("rect", { x: left + i * 66, y: height - 22, width: 16, height: 12 });
      swatch.style.fill = `color-mix(in oklab, var(--c0) ${Math.round(4 + 92 * Math.sqrt(part))}%, var(--card))`;
      return [swatch, svg("text", { x: left + i * 66 + 21, y: height - 12 }, short(part * most, 2))];
    });
    return [
      ...cells, ...key,
      ...plan.rows.map((name, r) => svg("text", { class: "name", x: left - 8, y: 22 + r * tall + 17, "text-anchor": "end" }, name)),
      ...plan.columns.flatMap((name, c) => (c % every ? [] : [svg("text", { x: left + (c + 0.5) * wide, y: height - 36, "text-anchor": "middle" }, name)])),
      svg("text", { class: "name", x: 8, y: 14 }, plan.unit), svg("text", { x: box.right, y: height - 12, "text-anchor": "end" }, plan.across),
    ];
  });
}

const KINDS = { bars: barsChart, rows: rowsChart, lines: linesChart, grid: gridChart };

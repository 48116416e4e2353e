// One figure against another, a point a policy, and the front: those that nobody beats in both.
const FRONT = { left: 78, right: 24, top: 26, bottom: 46, height: 400 };
const WIDE = 30; // from this ratio on an axis is logarithmic

// Money and the like at 1, 2 and 5 times a power of ten; times at the units that people know.
function decades(from, to, pixels) {
  const all = [];
  for (let power = 10 ** Math.floor(Math.log10(from)); power <= to; power *= 10) all.push(power, 2 * power, 5 * power);
  const few = all.filter((at) => at >= from && at <= to);
  const kept = few.length * 40 > pixels ? few.filter((at) => /^1/.test(at.toExponential())) : few;
  return kept.map((at) => ({ at, label: short(at) }));
}

// From a value to its place between 0 and 1, and the ticks. Nothing at all has a place of its own,
// at the beginning, where the rest is logarithmic.
function frontAxis(values, unit, pixels, apart) {
  const label = unit === "s" ? duration : (value) => short(value);
  const some = values.filter((value) => value > 0);
  const [low, high] = [Math.min(...some, Infinity), Math.max(...values, 0)];
  if (some.length && high / low > WIDE) {
    const [from, to] = [low * 0.8, high * 1.25];
    const begin = some.length < values.length ? 0.08 : 0;
    const place = (value) => (value > 0 ? begin + (1 - begin) * (Math.log(value / from) / Math.log(to / from)) : 0);
    const ticks = unit === "s" ? logTicks(from, to, pixels) : decades(from, to, pixels);
    return { place, ticks: begin ? [{ at: 0, label: "0" }, ...ticks] : ticks, label, log: true };
  }
  const top = high || 1;
  const close = some.length === values.length && low > 0.6 * top;
  const from = close ? low - 0.15 * (top - low || top) : 0;
  const to = top + 0.06 * (top - from);
  const most = Math.max(2, Math.floor(pixels / apart));
  const ticks = unit === "s" ? timeTicks(from, to, most) : ticksAt(from, to, niceStep((to - from) / most)).map((at) => ({ at, label: label(at) }));
  return { place: (value) => (value - from) / (to - from), ticks, label, log: false };
}

// Times carry their units at the ticks; money is in whatever unit the prices are.
const named = ([label, unit], axis) => `${label}${unit === "s" ? "" : ` (${unit || "in the unit of the prices"})`}${axis.log ? ", logarithmic" : ""}`;

// Labels stand beside their points, or where they cover no other and no point: the nearest such place.
const LABEL_HEIGHT = 14;
function placeLabels(points, right) {
  const taken = points.map(({ x, y }) => ({ left: x - 7, right: x + 7, top: y - 7, bottom: y + 7 }));
  const isFree = (box) => box.left > FRONT.left && box.right < right && box.top > FRONT.top - 10 && box.bottom < FRONT.height - FRONT.bottom
    && !taken.some((other) => box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom);
  for (const point of [...points].sort((a, b) => a.y - b.y)) {
    const wide = point.name.length * 6.8 + 4;
    const at = (dx, dy) => ({ left: dx < 0 ? point.x - 10 - wide : point.x + 10, right: dx < 0 ? point.x - 10 : point.x + 10 + wide, top: point.y - 7 + dy, bottom: point.y + 7 + dy, dx, dy });
    const places = [0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5].flatMap((lines) => [1, -1].map((side) => at(side, lines * LABEL_HEIGHT)));
    const box = places.find(isFree) ?? places[0];
    taken.push(box);
    Object.assign(point, { labelX: box.dx < 0 ? box.right : box.left, labelY: box.bottom - 3, anchor: box.dx < 0 ? "end" : "start", moved: box.dy !== 0 });
  }
}

function drawFront(holder, width, front, runs) {
  const { left, right, top, bottom, height } = FRONT;
  const [inner, tall] = [width - left - right, height - top - bottom];
  const x = frontAxis(front.points.map(([value]) => value), front.x[1], inner, 90);
  const y = frontAxis(front.points.map(([, value]) => value), front.y[1], tall, 50);
  const across = (value) => left + inner * x.place(value);
  const up = (value) => top + tall * (1 - y.place(value));
  const points = front.points.map(([vx, vy, isOn], i) => ({ i, vx, vy, isOn, name: cutName(runs[i].policy), x: across(vx), y: up(vy) }));
  placeLabels(points, width - 4);
  const steps = points.filter(({ isOn }) => isOn).sort((a, b) => a.x - b.x || b.y - a.y);
  // What lies to the right of this line and above it is beaten by somebody.
  const path = `M${steps[0].x.toFixed(1)} ${top}` + steps.map((point) => `H${point.x.toFixed(1)}V${point.y.toFixed(1)}`).join("") + `H${width - right}`;
  const summary = points.map((point) => `${runs[point.i].policy}: ${x.label(point.vx)}, ${y.label(point.vy)}${point.isOn ? ", on the front" : ""}`).join("; ");
  holder.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${front.title}. ${summary}` },
    ...y.ticks.flatMap(({ at, label }) => [
      svg("line", { class: "grid", x1: left, x2: width - right, y1: up(at), y2: up(at) }),
      svg("text", { x: left - 8, y: up(at) + 4, "text-anchor": "end" }, label),
    ]),
    ...x.ticks.flatMap(({ at, label }) => [
      svg("line", { class: "grid", x1: across(at), x2: across(at), y1: top, y2: height - bottom }),
      svg("text", { x: across(at), y: height - bottom + 16, "text-anchor": "middle" }, label),
    ]),
    svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }),
    svg("line", { class: "axis", x1: left, x2: left, y1: top, y2: height - bottom }),
    svg("text", { class: "name", x: left + inner / 2, y: height - 8, "text-anchor": "middle" }, `${named(front.x, x)} →`),
    svg("text", { class: "name", x: 4, y: 14 }, `↑ ${named(front.y, y)}`),
    svg("path", { d: path, fill: "none", stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "5 3" }),
    ...points.map((point) => frontPoint(point, x, y, runs[point.i].policy))));
}

const cutName = (policy) => (policy.length > 30 ? `${policy.slice(0, 29)}…` : policy);

function frontPoint({ i, vx, vy, isOn, name, x, y, labelX, labelY, anchor, moved }, across, up, policy) {
  const colour = policyColour(i);
  return svg("g", {},
    svg("title", {}, `${policy}: ${across.label(vx)}, ${up.label(vy)}${isOn ? " (on the front)" : ""}`),
    moved ? svg("line", { x1: x, y1: y, x2: labelX, y2: labelY - 4, stroke: colour, opacity: 0.5 }) : null,
    svg("circle", { cx: x, cy: y, r: 6, fill: isOn ? colour : "var(--card)", stroke: colour, "stroke-width": 2 }),
    svg("text", { class: isOn ? "name on-front" : "name", x: labelX, y: labelY, "text-anchor": anchor }, name));
}

function frontSection(front, runs) {
  $$("#tradeoff").hidden = false;
  $$("#h-front").textContent = front.title;
  $$("#front-caption").textContent = "● on the Pareto front (dashed): no policy is better in both; ○ another is";
  const on = runs.filter((_, i) => front.points[i][2]).map(({ policy }) => policy);
  $$("#front-hint").textContent = `Less is better in both directions. On the front: ${on.join(", ")}.`;
  onWidth($$("#front"), (width) => drawFront($$("#front"), width, front, runs));
}

// Scales, linear or logarithmic, their ticks, and two axes around a box.
const FRAME = { left: 62, right: 16, top: 24, bottom: 38 };

function scale(from, to, log, start, end) {
  const measure = log ? (value) => Math.log10(Math.max(value, from)) : (value) => value;
  const [low, span] = [measure(from), measure(to) - measure(from) || 1];
  return { from, to, log, at: (value) => start + (end - start) * clamp((measure(value) - low) / span, 0, 1) };
}

// Does a logarithmic scale tell apart what a linear one would draw on top of each other?
function spreads(values, low, high) {
  if (low <= 0 || high < 5 * low) return false;
  const middle = [...values].sort((a, b) => a - b)[values.length >> 1];
  return high >= 100 * low || middle - low < 0.15 * (high - low);
}

// Room beyond both ends, so that nothing lies on the axis; logarithmic where that helps.
const ROOM = 0.05;
const FURTHEST = 1e307; // beyond it the difference of two numbers is none
function roomyScale(values, start, end) {
  const [low, high] = [Math.max(Math.min(...values), -FURTHEST), Math.min(Math.max(...values), FURTHEST)];
  if (high === low) { const room = Math.abs(low) / 2 || 0.5; return scale(low - room, high + room, false, start, end); }
  if (spreads(values, low, high)) { const beyond = (high / low) ** ROOM; return scale(low / beyond, high * beyond, true, start, end); }
  return scale(low - ROOM * (high - low), high + ROOM * (high - low), false, start, end);
}

function powersOfTen(from, to, most) {
  const decades = Math.log10(to / from);
  const between = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(from)); power <= Math.ceil(Math.log10(to)); power++)
    ticks.push(...between.map((n) => Number((n * 10 ** power).toPrecision(6))).filter((at) => at >= from * 0.999 && at <= to * 1.001));
  const skip = Math.ceil(ticks.length / most);
  return ticks.filter((_, i) => i % skip === 0);
}

function ticksOf({ from, to, log }, most) {
  const found = log ? powersOfTen(from, to, most) : ticksAt(from, to, niceStep((to - from) / most));
  return (found.length > 1 ? found : [from, to]).map((at) => ({ at, label: short(at) }));
}

// Labels that would touch their neighbour are left out; text is about 6.5 pixels a letter, 12 high.
function apart(ticks, at, size) {
  let end = -Infinity;
  return [...ticks].sort((a, b) => at(a.at) - at(b.at)).map((tick) => {
    const half = size(tick.label) / 2;
    const clear = at(tick.at) - half >= end + 4;
    if (clear) end = at(tick.at) + half;
    return clear ? tick : { ...tick, label: "" };
  });
}
const acrossLabels = (ticks, at) => apart(ticks, at, (label) => 6.5 * label.length);
const upLabels = (ticks, at) => apart(ticks, at, () => 12);

// Numbers on the left, those below, and what both mean.
function axes(x, y, box, titles) {
  const yTicks = upLabels(y.ticks ?? ticksOf(y, 6), y.at);
  const xTicks = acrossLabels(x.ticks ?? ticksOf(x, clamp((box.right - box.left) / 60, 2, 10)), x.at);
  return [
    ...yTicks.flatMap(({ at, label }) => [
      svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y.at(at), y2: y.at(at) }),
      svg("text", { x: box.left - 6, y: y.at(at) + 4, "text-anchor": "end" }, label),
    ]),
    ...xTicks.flatMap(({ at, label }) => [
      svg("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: box.top, y2: box.bottom }),
      svg("text", { x: x.at(at), y: box.bottom + 16, "text-anchor": x.at(at) > box.right - 20 ? "end" : "middle" }, label),
    ]),
    svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    svg("text", { x: box.right, y: box.bottom + 33, "text-anchor": "end" }, titles.across),
    ...(titles.up ? [svg("text", { class: "name", x: 8, y: 14 }, titles.up)] : []),
  ];
}

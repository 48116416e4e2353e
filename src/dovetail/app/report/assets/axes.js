// Scales, linear or logarithmic, their ticks, and two axes around a box.
const FRAME = { left: 62, right: 16, top: 24, bottom: 38 };

function scale(from, to, log, start, end) {
  const measure = log ? (value) => Math.log10(Math.max(value, from)) : (value) => value;
  const [low, span] = [measure(from), measure(to) - measure(from) || 1];
  return { from, to, log, at: (value) => start + (end - start) * clamp((measure(value) - low) / span, 0, 1) };
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

// Numbers on the left, those below, and what both mean.
function axes(x, y, box, titles) {
  const yTicks = y.ticks ?? ticksOf(y, 6);
  const xTicks = x.ticks ?? ticksOf(x, clamp((box.right - box.left) / 60, 2, 10));
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

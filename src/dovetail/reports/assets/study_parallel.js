// Parallel coordinates: a line a trial, through its settings to its best value.
const POLE_WIDTH = 95; // pixels; where there is no room for all, the settings that explain least are left out

function poles(data, known, box) {
  const order = data.parameters.map((name, i) => ({ name, i, share: data.importance[i] ?? -1 }))
    .filter(({ i }) => new Set(known.map((trial) => String(trial.settings[i]))).size > 1)
    .sort((a, b) => b.share - a.share).slice(0, Math.max(2, Math.floor((box.right - box.left) / POLE_WIDTH)));
  const upright = { left: box.bottom - 24, right: box.top + 24 }; // a parameter's scale, stood on its end
  const settings = order.map(({ name, i }) => {
    const values = known.map((trial) => trial.settings[i]).filter((value) => value !== null);
    return { name, of: (trial) => trial.settings[i], scale: parameterScale(values, upright) };
  });
  const bests = known.map((trial) => clamp(trial.best, data.low, data.high));
  return [...settings, { name: `best ${data.metric}`, of: (trial) => clamp(trial.best, data.low, data.high), scale: roomyScale(bests, box.bottom, box.top) }];
}

function strands(known, all, x) {
  return known.map((trial) => ({ trial, places: all.flatMap((pole, n) => (pole.of(trial) === null ? [] : [{ px: x(n), py: pole.scale.at(pole.of(trial)) }])) }));
}

function poleMarks(pole, px, box, last) {
  const ticks = upLabels(pole.scale.ticks ?? ticksOf(pole.scale, 5), pole.scale.at);
  const shown = pole.name.length > 18 ? `${pole.name.slice(0, 17)}…` : pole.name;
  return [
    svg("line", { class: "pole", x1: px, x2: px, y1: box.top, y2: box.bottom }),
    svg("text", { class: "name", x: px, y: 14, "text-anchor": last ? "end" : "middle" }, shown),
    ...ticks.map(({ at, label }) => svg("text", { class: "on-lines", x: px - 5, y: pole.scale.at(at) + 4, "text-anchor": "end" }, label)),
  ];
}

function along(places, px, py) {
  for (let i = 1; i < places.length; i++) {
    const [from, to] = [places[i - 1], places[i]];
    if (px >= from.px && px <= to.px) return Math.abs(from.py + ((to.py - from.py) * (px - from.px)) / (to.px - from.px) - py);
  }
  return Infinity;
}

function parallelChart(holder, data) {
  const known = data.trials.filter((trial) => trial.best !== null);
  if (known.length < 2 || !data.parameters.length) return;
  const ordered = [...known].sort((a, b) => (b.rank ?? 1) - (a.rank ?? 1)); // the best on top
  bareChart(holder, 300, "Settings of all trials, and what came of them", (width) => {
    const box = { left: 70, right: width - 20, top: 30, bottom: 288 };
    const all = poles(data, known, box);
    const x = (n) => box.left + ((box.right - box.left) * n) / Math.max(all.length - 1, 1);
    const lines = strands(ordered, all, x);
    const marks = lines.map(({ trial, places }) => svg("path", {
      class: `strand ${trial.number === data.top ? "top" : ""}`, d: pathOf(places), stroke: trialColour(trial, data), "data-trial": trial.number,
    }));
    const find = (px, py) => {
      const near = lines.map((line) => ({ line, away: along(line.places, px, py) })).filter(({ away }) => away < 12).sort((a, b) => a.away - b.away)[0];
      return near && { trial: near.line.trial, rows: trialFacts(near.line.trial, data) };
    };
    return { marks: [...marks, ...all.flatMap((pole, n) => poleMarks(pole, x(n), box, n === all.length - 1))], find };
  });
}

// All learning curves, and the best value over time.
const MANY = 120; // curves that would hide each other

function curveClass(trial, data) {
  if (trial.number === data.top) return "curve top";
  return `curve ${trial.state === "running" ? "running" : data.trials.length > MANY ? "faint" : "plain"}`;
}

// One piece for each stretch of finite values; a single value is a short dash.
function pathOf(places) {
  let text = "";
  places.forEach((place, i) => {
    if (!place) return;
    const here = `${place.px.toFixed(1)} ${place.py.toFixed(1)}`;
    text += i && places[i - 1] ? `L${here}` : places[i + 1] ? `M${here}` : `M${here}h3`;
  });
  return text;
}

function curvesChart(holder, data, choice) {
  return chartOf(holder, 380, `Learning curves of ${count(data.trials.length, "trial")}`, (box) => {
    const byTime = choice.over === "time";
    const x = scale(0, byTime ? data.seconds : data.last_step, false, box.left, box.right);
    x.ticks = byTime ? timeTicks(0, data.seconds, (box.right - box.left) / 70) : ticksOf(x, 10).filter(({ at }) => Number.isInteger(at));
    const y = scale(data.low, data.high, choice.log, box.bottom, box.top);
    const things = [];
    const marks = data.trials.flatMap((trial) => {
      const { steps, values, times } = trial.curve;
      const places = values.map((value, i) => (value === null ? null : { trial, i, px: x.at(byTime ? times[i] : steps[i]), py: y.at(value) }));
      for (const place of places) if (place) things.push(place);
      const d = pathOf(places);
      return d ? [svg("path", { class: curveClass(trial, data), d, "data-trial": trial.number })] : [];
    });
    marks.sort((a, b) => Number(a.classList.contains("top")) - Number(b.classList.contains("top")));
    const find = (px, py) => {
      const hit = closest(things, px, py, 40);
      return hit && { trial: hit.trial, rows: [[`step ${plain(hit.trial.curve.steps[hit.i])}`, valueText(hit.trial.curve.values[hit.i])], ...trialFacts(hit.trial, data)] };
    };
    const titles = { across: byTime ? "time since the study was opened" : "step", up: data.metric };
    return { x, y, titles, marks: [...targetLine(data, y, box), ...marks], find };
  });
}

function curvesKey(holder, data) {
  const line = (name) => svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("path", { class: `curve ${name}`, d: "M0 4h26" }));
  const states = [["top", `the best: trial ${data.top}`, data.top !== null], ["running", "running now", data.trials.some((trial) => trial.state === "running")], ["plain", "the others", data.trials.length > 1]];
  holder.append(...states.filter(([, , is]) => is).map(([name, text]) => el("span", {}, line(name), text)));
}

function bestChart(holder, data) {
  const byNumber = new Map(data.trials.map((trial) => [trial.number, trial]));
  return chartOf(holder, 240, "The best value over time", (box) => {
    const values = [...data.best.map(([, value]) => value), ...(data.target === null ? [] : [data.target])];
    const x = { ...scale(0, data.seconds, false, box.left, box.right), ticks: timeTicks(0, data.seconds, (box.right - box.left) / 70) };
    const y = roomyScale(values, box.bottom, box.top);
    const things = data.best.map(([at, value, number]) => ({ trial: byNumber.get(number), at, value, px: x.at(at), py: y.at(value) }));
    const path = things.map(({ px, py }, i) => (i ? `H${px.toFixed(1)}V${py.toFixed(1)}` : `M${px.toFixed(1)} ${py.toFixed(1)}`)).join("") + `H${box.right}`;
    const find = (px, py) => {
      const hit = closest(things, px, py, 40);
      return hit && { trial: hit.trial, rows: [["then the best", valueText(hit.value)], ["after", duration(hit.at)], ...trialFacts(hit.trial, data)] };
    };
    const dots = things.map(({ trial, px, py }) => svg("circle", { class: `dot ${trial.number === data.top ? "top" : ""}`, cx: px, cy: py, r: 3.5, "data-trial": trial.number }));
    const marks = [...targetLine(data, y, box), svg("path", { class: "curve top", d: path }), ...dots];
    return { x, y, titles: { across: "time since the study was opened", up: `best ${data.metric} so far` }, marks, find };
  });
}

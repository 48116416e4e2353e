// A chart in which pointing at something names a trial.
// plan(box) gives {x, y, titles, marks, find(px, py) -> {trial, rows} or null}.
function chartOf(holder, height, label, plan) {
  return bareChart(holder, height, label, (width) => {
    const box = { left: FRAME.left, right: width - FRAME.right, top: FRAME.top, bottom: height - FRAME.bottom };
    const { x, y, titles, marks, find } = plan(box);
    return { marks: [...axes(x, y, box, titles), svg("g", {}, ...marks)], find };
  });
}

// The same without axes; plan(width) gives {marks, find}.
function bareChart(holder, height, label, plan) {
  let width = 0;
  function draw() {
    if (!width) return;
    const { marks, find } = plan(width);
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }, ...marks);
    chart.addEventListener("pointermove", (event) => {
      const place = chart.getBoundingClientRect();
      point(event, find(event.clientX - place.left, event.clientY - place.top));
    });
    chart.addEventListener("pointerleave", () => point(null, null));
    holder.replaceChildren(chart);
  }
  onWidth(holder, (now) => { width = now; draw(); });
  return { draw };
}

function point(event, hit) {
  lightUp(hit?.trial.number ?? null);
  if (hit) showTip(event, trialTitle(hit.trial), hit.rows);
  else hideTip();
}

let lit = null;
function lightUp(number) {
  if (number === lit) return;
  for (const mark of document.querySelectorAll(".on")) mark.classList.remove("on");
  lit = number;
  if (number === null) return;
  for (const mark of document.querySelectorAll(`[data-trial="${number}"]`)) {
    mark.classList.add("on");
    if (mark.classList.contains("curve") || mark.classList.contains("strand")) mark.parentNode.append(mark);
  }
}

const trialTitle = (trial) => `Trial ${trial.number}: ${trial.state}${trial.reason ? `, ${trial.reason}` : ""}`;
const valueText = (value) => (value === null ? "–" : short(value, 4));
const settingText = (value) => (typeof value !== "number" ? String(value) : Number.isSafeInteger(value) ? plain(value) : short(value, 4));

function trialFacts(trial, data) {
  return [
    ["best", valueText(trial.best)], ["steps", `${plain(trial.steps)} of ${plain(data.steps)}`],
    ...data.parameters.flatMap((name, i) => (trial.settings[i] === null ? [] : [[name, settingText(trial.settings[i])]])),
  ];
}

// The closest of many things that have places on the chart.
function closest(things, px, py, within) {
  let [best, least] = [null, within * within];
  for (const thing of things) {
    const away = (thing.px - px) ** 2 + (thing.py - py) ** 2;
    if (away <= least) [best, least] = [thing, away];
  }
  return best;
}

function targetLine(data, y, box) {
  const { target } = data;
  if (target === null || target < Math.min(y.from, y.to) || target > Math.max(y.from, y.to)) return [];
  return [
    svg("line", { class: "target", x1: box.left, x2: box.right, y1: y.at(target), y2: y.at(target) }),
    svg("text", { class: "target-name", x: box.right, y: y.at(target) - 4, "text-anchor": "end" }, `target ${valueText(target)}`),
  ];
}

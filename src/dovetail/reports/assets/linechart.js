// One chart of lines: axes, a line a policy, a cross-hair that reads the values out.
const MARGIN = { left: 54, right: 14, top: 8, bottom: 24 };

class LineChart {
  // plan() gives {x: {from, to, log, ticks}, y: {to, ticks}, lines: [{run, name, points}], title, label, read}.
  constructor(holder, height, plan) {
    Object.assign(this, { holder, height, plan, width: 0, cursor: null });
    onWidth(holder, (width) => { this.width = width; this.draw(); });
  }

  draw() {
    if (!this.width) return;
    const plan = this.now = this.plan();
    const inner = this.inner = this.width - MARGIN.left - MARGIN.right;
    const tall = this.height - MARGIN.top - MARGIN.bottom;
    const { from, to, log } = plan.x;
    const span = log ? Math.log(to / from) : to - from;
    this.x = (at) => MARGIN.left + inner * clamp((log ? Math.log(Math.max(at, from) / from) : at - from) / span, 0, 1);
    this.y = (at) => MARGIN.top + tall * (1 - clamp(at / plan.y.to, 0, 1));
    this.at = (x) => { const part = clamp((x - MARGIN.left) / inner, 0, 1); return log ? from * Math.exp(part * span) : from + part * span; };
    this.cross = svg("line", { class: "cross", y1: MARGIN.top, y2: MARGIN.top + tall, visibility: "hidden" });
    const chart = svg("svg", { class: "chart", viewBox: `0 0 ${this.width} ${this.height}`, height: this.height, role: "img", tabindex: 0, "aria-label": plan.label },
      ...this.axes(tall), ...plan.lines.map((line) => this.line(line)), this.cross);
    chart.addEventListener("pointermove", (event) => this.read(event, event.clientX - chart.getBoundingClientRect().left));
    chart.addEventListener("pointerleave", () => this.leave());
    chart.addEventListener("blur", () => this.leave());
    chart.addEventListener("keydown", (event) => this.key(event, chart));
    this.holder.replaceChildren(chart);
  }

  axes(tall) {
    const bottom = MARGIN.top + tall;
    const right = MARGIN.left + this.inner;
    return [
      ...upLabels(this.now.y.ticks, this.y).flatMap(({ at, label }) => [
        svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: this.y(at), y2: this.y(at) }),
        svg("text", { x: MARGIN.left - 6, y: this.y(at) + 4, "text-anchor": "end" }, label),
      ]),
      ...acrossLabels(this.now.x.ticks(this.inner), this.x).flatMap(({ at, label }) => [
        svg("line", { class: "grid", x1: this.x(at), x2: this.x(at), y1: MARGIN.top, y2: bottom }),
        svg("text", { x: this.x(at), y: bottom + 16, "text-anchor": this.x(at) > right - 20 ? "end" : "middle" }, label),
      ]),
      svg("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    ];
  }

  line({ run, points }) {
    const path = points.map(([x, y], i) => {
      const [px, py] = [this.x(x).toFixed(1), this.y(y).toFixed(1)];
      return i ? `H${px}V${py}` : `M${px} ${py}`;
    }).join("");
    return svg("path", { d: path, fill: "none", stroke: policyColour(run), "stroke-width": 1.6, "stroke-linejoin": "round", "stroke-dasharray": policyDash(run) || null });
  }

  read(event, x) {
    const at = this.at(x);
    const values = this.now.lines.map((line) => [line, this.now.read(line, at)]).filter(([, value]) => value);
    if (!values.length) return this.leave();
    this.cross.setAttribute("x1", this.x(at));
    this.cross.setAttribute("x2", this.x(at));
    this.cross.setAttribute("visibility", "visible");
    values.sort((a, b) => b[1].order - a[1].order);
    showTip(event, this.now.title(at), values.map(([line, value]) => [line.name, value.text, stroke(line.run)]));
  }

  key(event, chart) {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    const box = chart.getBoundingClientRect();
    this.cursor = clamp((this.cursor ?? MARGIN.left + this.inner / 2) + (move * this.inner) / 60, MARGIN.left, MARGIN.left + this.inner);
    this.read({ clientX: box.left + this.cursor, clientY: box.top + 20 }, this.cursor);
  }

  leave() {
    hideTip();
    this.cross.setAttribute("visibility", "hidden");
  }
}

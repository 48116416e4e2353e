// The chart of who ran where. `view` is what is visible: seconds from..to, rows top..bottom.
const GUTTER = 128;
const AXIS = 24;

class Gantt {
  constructor(canvas, chosen) {
    Object.assign(this, { canvas, chosen, job: null, colourBy: "job", width: 0, drag: null, queued: false });
    onWidth(canvas.parentElement, (width) => { this.width = width; this.resize(); });
    this.listen();
  }

  show(run, content) {
    const id = this.job?.id;
    Object.assign(this, { run, content, picture: null });
    this.job = content.byId.get(id) ?? null;
    this.reset();
    this.recolour();
    this.resize();
  }

  resize() {
    if (!this.width || !this.content) return;
    const plot = clamp(this.content.rows * 16, 96, 560);
    this.height = plot + AXIS;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.draw();
  }

  // --- what is visible -------------------------------------------------------------------------
  reset() { this.look({ from: this.run.window[0], to: this.run.window[1], top: 0, bottom: Math.max(1, this.content.rows) }); }

  look({ from, to, top, bottom }) {
    const [first, last] = this.run.window;
    const all = Math.max(1, this.content.rows);
    const span = clamp(to - from, Math.min(last - first, this.run.gantt.tick * 20), last - first);
    const rows = clamp(bottom - top, Math.min(all, 2), all);
    from = clamp((from + to - span) / 2, first, last - span);
    top = clamp((top + bottom - rows) / 2, 0, all - rows);
    this.view = { from, to: from + span, top, bottom: top + rows };
    this.redraw();
  }

  zoom(time, rows, x = 0.5, y = 0.5) {
    const { from, to, top, bottom } = this.view;
    const [t, r] = [from + x * (to - from), top + y * (bottom - top)];
    this.look({ from: t - (t - from) * time, to: t + (to - t) * time, top: r - (r - top) * rows, bottom: r + (bottom - r) * rows });
  }

  move(time, rows) {
    const { from, to, top, bottom } = this.view;
    const [dt, dr] = [time * (to - from), rows * (bottom - top)];
    this.look({ from: from + dt, to: to + dt, top: top + dr, bottom: bottom + dr });
  }

  get plot() { return { width: this.width - GUTTER, height: this.height - AXIS }; }
  x(time) { return GUTTER + ((time - this.view.from) / (this.view.to - this.view.from)) * this.plot.width; }
  y(row) { return AXIS + ((row - this.view.top) / (this.view.bottom - this.view.top)) * this.plot.height; }
  timeAt(x) { return this.view.from + ((x - GUTTER) / this.plot.width) * (this.view.to - this.view.from); }
  rowAt(y) { return this.view.top + ((y - AXIS) / this.plot.height) * (this.view.bottom - this.view.top); }

  // --- drawing ---------------------------------------------------------------------------------
  redraw() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => { this.queued = false; this.draw(); });
  }

  draw() {
    if (!this.context || !this.view) return;
    const c = this.context;
    const { width, height } = this.plot;
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = css("--card");
    c.fillRect(0, 0, this.width, this.height);
    c.fillStyle = css("--idle");
    c.fillRect(GUTTER, AXIS, width, height);
    c.save();
    c.beginPath();
    c.rect(GUTTER, AXIS, width, height);
    c.clip();
    this.drawShade();
    this.drawTicks(false);
    this.drawBoxes();
    c.restore();
    this.drawTicks(true);
    this.drawNodes();
    this.drawDrag();
  }

  drawShade() {
    const { shade, rows } = this.content;
    if (!shade?.lines) return;
    this.picture ??= shadePicture(shade, css("--busy"));
    const [first, last] = this.run.window;
    const c = this.context;
    c.imageSmoothingEnabled = (this.view.bottom - this.view.top) > this.plot.height;
    if (!shade.by_node) return void c.drawImage(this.picture, this.x(first), this.y(0), this.x(last) - this.x(first), this.y(rows) - this.y(0));
    this.content.nodes.forEach((node, line) => {
      c.drawImage(this.picture, 0, line, shade.bins, 1, this.x(first), this.y(node.row), this.x(last) - this.x(first), this.y(node.row + node.gpus) - this.y(node.row));
    });
  }

  drawTicks(labels) {
    const c = this.context;
    const ticks = timeTicks(this.view.from, this.view.to, this.plot.width / 90);
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (const { at, label } of ticks) {
      const x = Math.round(this.x(at)) + 0.5;
      c.fillStyle = css(labels ? "--soft" : "--line");
      if (labels) c.fillText(label, clamp(x, GUTTER + 4, this.width - 22), AXIS / 2);
      else c.fillRect(x - 0.5, AXIS, 1, this.plot.height);
    }
  }

  drawBoxes() {
    const rowHeight = this.plot.height / (this.view.bottom - this.view.top);
    const gap = rowHeight > 5 ? 1 : 0;
    for (const box of this.content.boxes) if (box.stint.job !== this.job) this.drawBox(box, rowHeight, gap, this.job ? 0.22 : 1);
    if (this.job) for (const box of this.content.boxes) if (box.stint.job === this.job) this.drawBox(box, rowHeight, gap, 1);
  }

  place(box, rowHeight) {
    const { from, to, share } = box.stint;
    const left = this.x(from);
    const top = this.y(box.top) + (rowHeight * box.offset) / 1000;
    return { left, top, width: this.x(to) - left, height: share === 1000 ? box.rows * rowHeight : (rowHeight * share) / 1000 };
  }

  drawBox(box, rowHeight, gap, alpha) {
    const { left, top, width, height } = this.place(box, rowHeight);
    if (left > this.width || left + width < GUTTER || top > this.height || top + height < AXIS) return;
    const c = this.context;
    const colour = this.colours.get(box.stint.job);
    const marked = box.stint.job === this.job;
    c.globalAlpha = alpha;
    c.fillStyle = colour;
    const [w, h] = [Math.max(marked ? 2 : 0.3, width - (width > 4 ? 0.8 : 0)), Math.max(marked ? 2 : 0.3, height - gap)];
    c.fillRect(left, top + gap / 2, w, h);
    if (marked) { c.strokeStyle = css("--ink"); c.lineWidth = 1.5; c.strokeRect(left, top + gap / 2, w, h); }
    if (alpha === 1 && height >= 11 && width > 34) this.drawName(box, colour, Math.max(left, GUTTER), this.nameAt(box, top, height), Math.min(left + width, this.width));
    c.globalAlpha = 1;
  }

  // In the middle of the first node it covers, where no line between nodes crosses it.
  nameAt(box, top, height) {
    const node = this.content.nodeOf[box.top];
    return (top + Math.min(top + height, this.y(node.row + node.gpus))) / 2;
  }

  drawName(box, colour, left, middle, right) {
    const c = this.context;
    const room = right - left - 8;
    const fits = Math.floor(room / 6.2);
    const id = box.stint.job.id;
    if (fits < 3) return;
    c.font = "11px system-ui, sans-serif";
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.fillStyle = inkOn(colour);
    c.fillText(id.length > fits ? `${id.slice(0, fits - 1)}…` : id, left + 4, middle, room);
    c.font = "12px system-ui, sans-serif";
  }

  drawNodes() {
    const c = this.context;
    const rowHeight = this.plot.height / (this.view.bottom - this.view.top);
    let free = AXIS;
    c.save();
    c.beginPath();
    c.rect(0, AXIS, this.width, this.plot.height);
    c.clip();
    c.textBaseline = "middle";
    for (const node of this.content.nodes) {
      const [top, bottom] = [this.y(node.row), this.y(node.row + node.gpus)];
      if (bottom <= AXIS || top > this.height || node.gpus === 0) continue;
      if (bottom - top >= 4) { c.fillStyle = css("--line"); c.fillRect(0, Math.round(top), this.width, 1); }
      const middle = (Math.max(top, AXIS) + Math.min(bottom, this.height)) / 2;
      if (rowHeight >= 11) this.drawGpuNumbers(node, rowHeight);
      if (middle - 7 < free) continue;
      this.drawNodeName(node, middle, rowHeight);
      free = middle + 8;
    }
    c.restore();
  }

  drawNodeName(node, middle, rowHeight) {
    const c = this.context;
    const both = rowHeight * node.gpus >= 30;
    const cut = (text) => (text.length > 15 ? `${text.slice(0, 14)}…` : text);
    c.textAlign = "left";
    c.fillStyle = css("--ink");
    c.fillText(cut(node.id), 2, both ? middle - 7 : middle, GUTTER - 26);
    c.fillStyle = css("--soft");
    if (both) c.fillText(cut(node.kind === "gpu" ? `${node.gpus} GPUs` : node.kind), 2, middle + 8, GUTTER - 26);
  }

  drawGpuNumbers(node, rowHeight) {
    const c = this.context;
    c.textAlign = "right";
    c.fillStyle = css("--soft");
    c.font = "11px system-ui, sans-serif";
    for (let gpu = 0; gpu < node.gpus; gpu++) c.fillText(String(gpu), GUTTER - 6, this.y(node.row + gpu) + rowHeight / 2);
    c.font = "12px system-ui, sans-serif";
  }

  drawDrag() {
    if (!this.drag?.box) return;
    const { x, y, nowX, nowY } = this.drag;
    const c = this.context;
    const flat = Math.abs(nowY - y) < 12;
    c.fillStyle = css("--accent");
    c.globalAlpha = 0.25;
    c.fillRect(x, flat ? AXIS : y, nowX - x, flat ? this.plot.height : nowY - y);
    c.globalAlpha = 1;
  }

  // --- colours ---------------------------------------------------------------------------------
  recolour(by = this.colourBy) {
    this.colourBy = by;
    this.picture = null;
    const { key, of } = colouring(by, this.content.jobs);
    this.colours = new Map(this.content.jobs.map((job) => [job, of(job)]));
    if (this.content.shade) key.push(["stints too small to draw (stronger: busier)", css("--busy")]);
    $$("#key").replaceChildren(...key.map(([name, colour]) => el("span", {}, swatch(colour), name)));
    this.redraw();
  }

  // --- pointer and keys ------------------------------------------------------------------------
  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("pointercancel", () => { this.drag = null; this.redraw(); });
    canvas.addEventListener("dblclick", () => this.reset());
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  // Without focus the wheel belongs to the page: a tall chart must not trap someone who scrolls past.
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    const { x, y } = this.local(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return this.move(event.deltaX / this.plot.width, 0);
    const factor = Math.exp(clamp(event.deltaY, -150, 150) / 400);
    const [px, py] = [clamp((x - GUTTER) / this.plot.width, 0, 1), clamp((y - AXIS) / this.plot.height, 0, 1)];
    this.zoom(event.altKey ? 1 : factor, event.altKey ? factor : 1, px, py);
  }

  local(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  press(event) {
    if (event.button !== 0) return;
    const { x, y } = this.local(event);
    this.drag = { x, y, nowX: x, nowY: y, view: this.view, pan: event.shiftKey, box: false };
    this.canvas.setPointerCapture(event.pointerId);
  }

  hover(event) {
    const { x, y } = this.local(event);
    if (!this.drag) return this.tell(event, x, y);
    hideTip();
    const { drag } = this;
    Object.assign(drag, { nowX: clamp(x, GUTTER, this.width), nowY: clamp(y, AXIS, this.height) });
    if (!drag.pan) { drag.box ||= Math.hypot(x - drag.x, y - drag.y) > 5; return this.redraw(); }
    this.view = drag.view;
    this.move((drag.x - x) / this.plot.width, (drag.y - y) / this.plot.height);
  }

  release(event) {
    const drag = this.drag;
    this.drag = null;
    if (!drag || drag.pan) return;
    if (!drag.box) return this.choose(this.boxAt(drag.x, drag.y)?.stint.job ?? null);
    const times = [this.timeAt(drag.x), this.timeAt(drag.nowX)].sort((a, b) => a - b);
    const flat = Math.abs(drag.nowY - drag.y) < 12;
    const rows = flat ? [this.view.top, this.view.bottom] : [this.rowAt(drag.y), this.rowAt(drag.nowY)].sort((a, b) => a - b);
    this.look({ from: times[0], to: times[1], top: rows[0], bottom: rows[1] });
  }

  key(event) {
    const does = { ArrowLeft: "earlier", ArrowRight: "later", ArrowUp: "up", ArrowDown: "down", "+": "in", "=": "in", "-": "out", "]": "fewer", "[": "more", 0: "reset" }[event.key];
    if (event.key === "Escape") this.choose(null);
    if (!does || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    this.do(does);
  }

  do(what) {
    ({
      earlier: () => this.move(-0.25, 0), later: () => this.move(0.25, 0), up: () => this.move(0, -0.25), down: () => this.move(0, 0.25),
      in: () => this.zoom(0.6, 1), out: () => this.zoom(1 / 0.6, 1), fewer: () => this.zoom(1, 0.6), more: () => this.zoom(1, 1 / 0.6), reset: () => this.reset(),
    })[what]();
  }

  // --- jobs ------------------------------------------------------------------------------------
  boxAt(x, y) {
    if (x < GUTTER || y < AXIS) return null;
    const rowHeight = this.plot.height / (this.view.bottom - this.view.top);
    return this.content.boxes.findLast((box) => {
      const { left, top, width, height } = this.place(box, rowHeight);
      return x >= left - 1 && x <= left + Math.max(width, 1) && y >= top && y <= top + Math.max(height, 1);
    }) ?? null;
  }

  tell(event, x, y) {
    const row = Math.floor(this.rowAt(y));
    const node = this.content.nodeOf[row];
    if (x < GUTTER || y < AXIS || !node) return hideTip();
    const where = ["GPU", `${node.id} · ${row - node.row}${node.kind === "gpu" ? "" : ` (${node.kind})`}`];
    const stint = this.boxAt(x, y)?.stint;
    if (stint) return showTip(event, `Job ${stint.job.id}`, [...jobFacts(stint.job), ...stintFacts(stint), where]);
    const level = this.shadeAt(row, node, this.timeAt(x));
    showTip(event, level > 0 ? `${percent(Math.min(1, level))} busy around here` : "Idle", [where, ["Time", duration(this.timeAt(x))]]);
  }

  shadeAt(row, node, time) {
    const { shade, nodes } = this.content;
    if (!shade) return 0;
    const [first, last] = this.run.window;
    const line = shade.by_node ? nodes.indexOf(node) : row;
    return shade.levels[line * shade.bins + clamp(Math.floor(((time - first) / (last - first)) * shade.bins), 0, shade.bins - 1)];
  }

  choose(job) {
    this.job = job;
    this.chosen(job);
    this.redraw();
  }

  goTo(job) {
    const [from, to] = [job.stints[0].from, job.stints.at(-1).to];
    const room = Math.max((to - from) * 0.5, this.run.gantt.tick * 20);
    this.look({ ...this.view, from: from - room, to: to + room });
    this.choose(job);
  }
}

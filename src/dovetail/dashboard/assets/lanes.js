// A lane of time for each GPU: what it did in the past hour, what it is expected to do in the next.
const LANES = { left: 92, right: 8, top: 6, bottom: 30, span: 3600 };

class Lanes {
  // plan() gives {at, nodes, boxes: [{row.., from, to, future}], colour(box), open(box)}.
  constructor(holder, plan) {
    Object.assign(this, { holder, plan, width: 0, hits: [] });
    this.canvas = el("canvas", { role: "img" });
    holder.append(this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", hideTip);
    this.canvas.addEventListener("click", (event) => { const hit = this.hit(event); if (hit) location.href = `/page/job/${hit.id}`; });
    onWidth(holder, (width) => { this.width = width; this.draw(); });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  draw() {
    if (!this.width || !this.plan()) return;
    const plan = (this.now = this.plan());
    this.left = this.width < 520 ? 58 : LANES.left;
    const rows = plan.rows.length;
    this.row = rows <= 12 ? 26 : rows <= 32 ? 16 : 10;
    const height = LANES.top + LANES.bottom + rows * this.row;
    const dense = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: this.width * dense, height: height * dense });
    this.canvas.style.height = `${height}px`;
    this.canvas.setAttribute("aria-label", plan.label);
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(dense, dense);
    this.pen.font = "11.5px system-ui, sans-serif";
    this.pen.textBaseline = "middle";
    this.axis(plan, height);
    this.closings(plan);
    this.hits = plan.boxes.map((box) => this.box(box)).filter(Boolean);
    this.names(plan);
    this.pen.fillStyle = css("--ink");
    this.pen.fillRect(this.x(plan.at) - 0.75, LANES.top, 1.5, rows * this.row);
  }

  x(at) {
    const inner = this.width - this.left - LANES.right;
    return this.left + (inner * (at - this.now.at + LANES.span)) / (2 * LANES.span);
  }

  axis(plan, height) {
    const { pen } = this;
    const bottom = height - LANES.bottom;
    const step = this.width < 520 ? 3600 : 600;
    pen.textAlign = "center";
    for (let off = -LANES.span; off <= LANES.span; off += step) {
      const x = Math.round(this.x(plan.at + off)) + 0.5;
      pen.fillStyle = css("--grid");
      pen.fillRect(x - 0.5, LANES.top, 1, bottom - LANES.top);
      pen.fillStyle = css("--soft");
      pen.textAlign = off === -LANES.span ? "left" : off === LANES.span ? "right" : "center";
      pen.fillText(off === 0 ? "now" : `${off < 0 ? "−" : "+"}${Math.abs(off) / 60} min`, x, bottom + 11);
    }
    pen.fillStyle = css("--line");
    for (const [i, row] of plan.rows.entries()) if (row.first) pen.fillRect(0, LANES.top + i * this.row, this.width - LANES.right, 1);
  }

  // From now on nothing starts there.
  closings(plan) {
    const { pen } = this;
    const [from, end] = [this.x(plan.at), this.width - LANES.right];
    pen.textAlign = "right";
    for (const [i, row] of plan.rows.entries()) {
      if (!row.closed) continue;
      const y = LANES.top + i * this.row;
      pen.fillStyle = css("--idle");
      pen.fillRect(from, y + 1, end - from, this.row - 2);
      if (this.row < 16) continue;
      pen.save();
      pen.beginPath();
      pen.rect(from, y, end - from, this.row);
      pen.clip();
      pen.fillStyle = css("--soft");
      pen.fillText(`closed ${row.closed}`, end - 4, y + this.row / 2);
      pen.restore();
    }
  }

  box(box) {
    const { pen, row } = this;
    const [from, to] = [Math.max(this.x(box.from), this.left), Math.min(this.x(box.to), this.width - LANES.right)];
    if (to < this.left || from > this.width - LANES.right) return null;
    const width = Math.max(to - from, 1);
    const part = box.share / 1000;
    const y = LANES.top + box.top * row + 1 + (box.offset / 1000) * (row - 2);
    const height = Math.max(box.rows * row - 2, 1) * (box.rows === 1 ? part : 1);
    const colour = this.now.colour(box);
    pen.globalAlpha = box.future ? 0.32 : 1;
    pen.fillStyle = colour;
    pen.fillRect(from, y, width, height);
    pen.globalAlpha = 1;
    if (box.future) this.outline(from, y, width, height, colour);
    if (width > 44 && height > 10) this.label(box, from, y, width, height, colour);
    return { ...box, left: from, right: from + width, up: y, down: y + height };
  }

  outline(x, y, width, height, colour) {
    this.pen.strokeStyle = colour;
    this.pen.setLineDash([3, 3]);
    this.pen.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0), height - 1);
    this.pen.setLineDash([]);
  }

  label(box, x, y, width, height, colour) {
    const { pen } = this;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width - 3, height);
    pen.clip();
    pen.textAlign = "left";
    pen.fillStyle = box.future ? css("--ink") : inkOn(colour);
    pen.fillText(box.name ? `${box.id} ${box.name}` : box.id, x + 4, y + height / 2);
    pen.restore();
  }

  names(plan) {
    const { pen } = this;
    pen.textAlign = "left";
    for (const [i, row] of plan.rows.entries()) {
      const y = LANES.top + (i + 0.5) * this.row;
      pen.fillStyle = css("--soft");
      if (row.first || this.row >= 16 || row.place % 8 === 0) {
        pen.save();
        pen.beginPath();
        pen.rect(0, y - this.row, this.left - 4, 2 * this.row);
        pen.clip();
        pen.fillText(row.text, 0, y);
        pen.restore();
      }
      if (row.strange) { pen.fillStyle = css("--busy"); pen.fillRect(this.left - 5, y - this.row / 2 + 2, 3, this.row - 4); }
    }
  }

  hit(event) {
    const place = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top];
    return this.hits.findLast((box) => x >= box.left - 1 && x <= box.right + 1 && y >= box.up && y <= box.down);
  }

  point(event) {
    const box = this.hit(event);
    this.canvas.style.cursor = box ? "pointer" : "default";
    if (!box) return hideTip();
    const time = (at) => clockText(at, true);
    showTip(event, `Job ${box.id} ${box.name}`, [
      ["user", box.user], ["from", time(box.from)], ["until", box.open ? "unknown" : `${time(box.to)}${box.future && box.guess ? ", a guess" : ""}`],
      ["lasting", duration(box.to - box.from)], ["", box.future ? "expected" : box.end || "running"],
    ]);
  }
}

// Boxes of a stint, one for each stretch of neighbouring rows; shares lie one above the other.
function boxesOf(stints, rowOf) {
  const boxes = [];
  for (const stint of stints) {
    const rows = stint.on.flatMap((piece) => piece.gpus.map((gpu) => rowOf.get(`${piece.node}/${gpu}`))).filter((row) => row !== undefined).sort((a, b) => a - b);
    const share = Math.round(stint.share * 1000);
    let box = null;
    for (const row of rows) {
      if (box && share === 1000 && row === box.top + box.rows) { box.rows += 1; continue; }
      box = { ...stint, stint: { share, from: stint.from, to: stint.to }, share, top: row, rows: 1, offset: 0 };
      boxes.push(box);
    }
  }
  stack(boxes);
  return boxes;
}

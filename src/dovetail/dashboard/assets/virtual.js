// A list of which only the rows in sight are there, in parts fetched when they come in sight: ten
// thousand rows scroll like ten.
const PART = 100;
const BEYOND = 6; // rows above and below those in sight

class VirtualList {
  // load(first, most) gives {total, rows}; draw(row, place, element) fills an element, which may have
  // been another row before; height: of a row, in pixels.
  constructor(holder, { load, draw, height = 36, most = 460, label, columns }) {
    Object.assign(this, { holder, load, draw, height, most, total: 0, parts: new Map(), elements: new Map(), asked: new Set(), round: 0 });
    this.space = el("div", { class: "space", role: "presentation" });
    fill(holder, { class: "rows", role: "table", "aria-label": label, "aria-colcount": columns, tabindex: 0 }, [this.space]);
    holder.addEventListener("scroll", () => this.later(), { passive: true });
    onWidth(holder, () => this.later());
  }

  later() {
    this.waiting ??= requestAnimationFrame(() => { this.waiting = null; this.show(); });
  }

  // What is in sight is fetched anew; the old rows stay until the new ones are there.
  async renew() {
    this.round += 1;
    this.asked.clear();
    const [from, to] = this.inSight();
    const first = Math.floor(from / PART);
    const parts = [];
    for (let part = first; part <= Math.floor(Math.max(to - 1, 0) / PART); part++) parts.push(part);
    const round = this.round;
    const found = await Promise.all(parts.map(async (part) => [part, await this.load(part * PART, PART)]));
    if (round !== this.round) return;
    this.parts = new Map(found.map(([part, told]) => [part, told.rows]));
    this.resize(found[0][1].total);
    this.show();
  }

  resize(total) {
    this.total = total;
    this.space.style.height = `${total * this.height}px`;
    this.holder.style.height = `${Math.min(total * this.height, this.most) + 2}px`;
    this.holder.setAttribute("aria-rowcount", total);
    this.holder.hidden = total === 0;
  }

  inSight() {
    const top = Math.floor(this.holder.scrollTop / this.height) - BEYOND;
    const rows = Math.ceil(this.most / this.height) + 2 * BEYOND;
    return [Math.max(0, top), Math.max(0, Math.min(this.total || PART, top + rows))];
  }

  show() {
    const [from, seen] = this.inSight();
    const to = Math.min(seen, this.total);
    const free = [];
    for (const [place, element] of this.elements) if (place < from || place >= to) { this.elements.delete(place); free.push(element); }
    for (let place = from; place < to; place++) this.place(place, free);
    for (const element of free) element.remove();
  }

  place(place, free) {
    const part = Math.floor(place / PART);
    const row = this.parts.get(part)?.[place % PART];
    if (!row) { this.fetch(part); }
    let element = this.elements.get(place);
    if (!element) {
      element = free.pop() ?? el("div", { class: "line", role: "row" });
      element.style.transform = `translateY(${place * this.height}px)`;
      element.style.height = `${this.height}px`;
      element.setAttribute("aria-rowindex", place + 1);
      this.elements.set(place, element);
      if (!element.isConnected) this.space.append(element);
    } else if (element.row === row) return;
    element.row = row;
    if (row) this.draw(row, place, element); else element.replaceChildren();
  }

  // The same rows, drawn anew: times have passed.
  redraw() {
    for (const [place, element] of this.elements) if (element.row) this.draw(element.row, place, element);
  }

  async fetch(part) {
    if (this.asked.has(part)) return;
    this.asked.add(part);
    const round = this.round;
    try {
      const told = await this.load(part * PART, PART);
      if (round !== this.round) return;
      this.parts.set(part, told.rows);
      this.later();
    } catch (error) { this.asked.delete(part); shown(error); }
  }
}

// The new cells in place of the old, as far as they differ: a button under a finger stays the same one.
function patch(element, cells) {
  if (element.children.length !== cells.length) return element.replaceChildren(...cells);
  cells.forEach((cell, i) => {
    const old = element.children[i];
    const [was, is] = [old.firstElementChild, cell.firstElementChild];
    if (old.isEqualNode(cell)) return;
    if (was && is && ["data-job", "href"].every((name) => was.getAttribute(name) === is.getAttribute(name))) was.replaceChildren(...is.childNodes);
    else old.replaceWith(cell);
  });
}

const cell = (text, kind = "") => el("span", { role: "cell", class: kind || null }, text);

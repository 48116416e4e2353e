// A log of any length: a few stretches of it are here, fetched by their place in bytes as one scrolls.
const STRETCH = 64 << 10;
const MOST_STRETCHES = 12;
const FOLLOW_MS = 700;

class LogView {
  constructor(holder, job) {
    Object.assign(this, { holder, job, stretches: [], begin: 0, upto: 0, end: 0, busy: null, over: false, find: "" });
    holder.addEventListener("scroll", () => this.scrolled(), { passive: true });
  }

  async read(start, most) {
    const answer = await ask(`/v1/jobs/${this.job}/log?start=${start}&most=${most}`);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    this.end = Number(answer.headers.get("dovetail-end"));
    return { start: Number(answer.headers.get("dovetail-start")), bytes };
  }

  // One thing at a time. What its reader asks for comes next; what comes by itself is left out meanwhile.
  async alone(work, asked = false) {
    if (this.busy && !asked) return;
    while (this.busy) await this.busy.catch(() => {});
    this.busy = work();
    try { await this.busy; } finally { this.busy = null; }
    this.note();
  }

  toEnd() {
    return this.alone(async () => {
      const { start, bytes } = await this.read(-STRETCH, STRETCH);
      this.restart(start, bytes, start > 0);
      this.holder.scrollTop = this.holder.scrollHeight;
    }, true);
  }

  to(place, text = "") {
    this.find = text;
    return this.alone(async () => {
      const { start, bytes } = await this.read(Math.max(place - 2000, 0), STRETCH);
      this.restart(start, bytes, start > 0, place - start);
      const mark = this.holder.querySelector("mark");
      if (mark) mark.scrollIntoView({ block: "center" }); else this.holder.scrollTop = 0;
    }, true);
  }

  // From the first whole line on.
  restart(start, bytes, cut, goal = -1) {
    const skipped = cut ? bytes.indexOf(10) + 1 : 0;
    this.holder.replaceChildren();
    this.stretches = [];
    this.begin = this.upto = start + skipped;
    this.append(bytes.subarray(skipped), goal - skipped);
  }

  append(bytes, goal = -1) {
    if (bytes.length >= STRETCH && bytes.lastIndexOf(10) > 0) bytes = bytes.subarray(0, bytes.lastIndexOf(10) + 1); // the rest of the line comes next
    if (!bytes.length) return;
    const element = el("span", { class: "stretch" });
    const own = { element, start: this.upto, length: bytes.length };
    this.write(element, bytes, goal);
    this.holder.append(element);
    this.stretches.push(own);
    this.upto += bytes.length;
    while (this.stretches.length > MOST_STRETCHES) {
      const first = this.stretches.shift();
      first.element.remove();
      this.begin = this.stretches[0].start;
    }
  }

  write(element, bytes, goal) {
    const decode = (part) => new TextDecoder().decode(part);
    const ansi = new Ansi();
    if (goal < 0 || !this.find) return ansi.write(element, decode(bytes));
    let end = bytes.indexOf(10, goal);
    if (end < 0) end = bytes.length;
    ansi.write(element, decode(bytes.subarray(0, goal)));
    const mark = el("mark");
    ansi.write(mark, decode(bytes.subarray(goal, end)));
    element.append(mark);
    ansi.write(element, decode(bytes.subarray(end)));
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.holder;
    if (scrollTop < 80 && this.begin > 0) this.alone(() => this.earlier());
    else if (scrollHeight - scrollTop - clientHeight < 80 && this.upto < this.end) this.alone(() => this.later());
  }

  async later() {
    const { start, bytes } = await this.read(this.upto, STRETCH);
    if (start > this.upto) { this.holder.append(el("span", { class: "gone" }, `(${plain(start - this.upto)} bytes are not kept)`)); this.upto = start; }
    this.append(bytes);
  }

  async earlier() {
    const from = Math.max(this.begin - STRETCH, 0);
    const { start, bytes } = await this.read(from, this.begin - from);
    const gone = start > from && start >= this.begin;
    if (gone) { this.begin = 0; return; }
    const skipped = start > 0 ? bytes.indexOf(10) + 1 : 0;
    const before = this.holder.scrollHeight - this.holder.scrollTop;
    const element = el("span", { class: "stretch" });
    this.write(element, bytes.subarray(skipped), -1);
    this.holder.prepend(element);
    this.stretches.unshift({ element, start: start + skipped, length: bytes.length - skipped });
    this.begin = start + skipped;
    while (this.stretches.length > MOST_STRETCHES) { const last = this.stretches.pop(); last.element.remove(); this.upto = last.start; }
    this.holder.scrollTop = this.holder.scrollHeight - before;
  }

  // What has come since, as long as the end is in sight.
  follow() {
    return this.alone(async () => {
      const atEnd = this.holder.scrollHeight - this.holder.scrollTop - this.holder.clientHeight < 60;
      if (this.upto < this.end && !atEnd) { await this.read(this.end, 0); return; }
      for (let i = 0; i < 4 && (i === 0 || this.upto < this.end); i++) await this.later();
      if (this.end - this.upto > 4 * STRETCH) { const { start, bytes } = await this.read(-STRETCH, STRETCH); this.restart(start, bytes, true); }
      if (atEnd) this.holder.scrollTop = this.holder.scrollHeight;
    });
  }

  note() {
    const size = (bytes) => (bytes < 1e3 ? count(bytes, "byte") : bytes < 1e6 ? `${short(bytes / 1e3)} kB` : bytes < 1e9 ? `${short(bytes / 1e6)} MB` : `${short(bytes / 1e9)} GB`);
    $$("#log-note").textContent = this.end ? `${size(this.end)}; ${this.begin === 0 && this.upto === this.end ? "all of it is shown" : `shown: ${size(this.begin)} to ${size(this.upto)}`}` : "Nothing was printed yet.";
  }
}

// Looks through all of it, a stretch at a time.
const searching = { round: 0 };
async function searchLog(view, text) {
  const round = ++searching.round;
  const place = $$("#hits");
  place.replaceChildren();
  place.hidden = !text;
  let [upto, number] = [0, 0];
  while (text && round === searching.round && number < 500) {
    const told = await get(`/v1/page/jobs/${view.job}/log?start=${upto}&text=${encodeURIComponent(text)}`);
    if (round !== searching.round) return;
    for (const hit of told.found) place.append(el("button", { type: "button", onclick: () => { $$("#follow").checked = false; view.to(hit.at, text); } }, hit.line));
    number += told.found.length;
    $$("#log-note").textContent = `${number >= 500 ? "the first " : ""}${count(number, "line")} with “${text}”; looked through ${percent(told.end ? told.upto / told.end : 1)}`;
    if (told.upto >= told.end || told.upto <= upto) return;
    upto = told.upto;
  }
}

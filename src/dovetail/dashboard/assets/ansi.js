// A log as a terminal would show it: colours by class, carriage returns, and nothing else of what
// steers a terminal. Text goes in as text alone.
const ESCAPE = /\x1b(?:\[([0-9;:?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[@-Z\\-_])/g;

class Ansi {
  constructor() { this.style = {}; }

  // Appends the text to the element; the style goes on in the next piece.
  write(element, text) {
    let last = 0;
    const clean = overwritten(text);
    for (const match of clean.matchAll(ESCAPE)) {
      this.put(element, clean.slice(last, match.index));
      last = match.index + match[0].length;
      if (match[2] === "m") this.sgr((match[1] || "0").split(/[;:]/).map(Number));
    }
    this.put(element, clean.slice(last));
  }

  put(element, text) {
    const shown = text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g, "");
    if (!shown) return;
    const { style } = this;
    const names = [style.bold && "b", style.italic && "i", style.underline && "u", style.dim && "dim", style.colour !== undefined && `f${style.colour}`].filter(Boolean);
    element.append(names.length ? el("span", { class: names.join(" ") }, shown) : shown);
  }

  sgr(codes) {
    for (let i = 0; i < codes.length; i++) {
      const code = codes[i];
      if (code === 0) this.style = {};
      else if (code === 1) this.style.bold = true;
      else if (code === 2) this.style.dim = true;
      else if (code === 3) this.style.italic = true;
      else if (code === 4) this.style.underline = true;
      else if (code === 22) { this.style.bold = this.style.dim = false; }
      else if (code === 23) this.style.italic = false;
      else if (code === 24) this.style.underline = false;
      else if (code === 39) delete this.style.colour;
      else if (code >= 30 && code <= 37) this.style.colour = code - 30;
      else if (code >= 90 && code <= 97) this.style.colour = code - 90;
      else if (code === 38 || code === 48) i = this.wide(codes, i, code);
    }
  }

  // 256 colours and true colours: the nearest of the eight, which can be read on both grounds.
  wide(codes, i, code) {
    if (codes[i + 1] === 5) {
      if (code === 38 && codes[i + 2] < 16) this.style.colour = codes[i + 2] % 8;
      else if (code === 38 && codes[i + 2] < 232) { const n = codes[i + 2] - 16; this.style.colour = nearest(Math.floor(n / 36), Math.floor(n / 6) % 6, n % 6, 3); }
      return i + 2;
    }
    if (code === 38) this.style.colour = nearest(codes[i + 2], codes[i + 3], codes[i + 4], 128);
    return i + 4;
  }
}

const nearest = (r, g, b, half) => (r >= half ? 1 : 0) + (g >= half ? 2 : 0) + (b >= half ? 4 : 0);

// A progress bar writes the same line again and again: what was written last is what is seen.
// By searching, not by a pattern: patterns that go back take minutes for a long line.
const overwritten = (text) => (text.includes("\r") ? text.split("\n").map(seenOf).join("\n") : text);

function seenOf(line, number, lines) {
  let end = line.length;
  if (number < lines.length - 1) while (end && line[end - 1] === "\r") end--;
  return end < 2 ? line.slice(0, end) : line.slice(line.lastIndexOf("\r", end - 2) + 1, end);
}

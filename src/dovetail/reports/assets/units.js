// Times and counts as people say them.
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const plain = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });

function short(value, digits = 3) {
  if (Math.abs(value) >= 1e7) return value.toExponential(digits - 1).replace(/\.?0*e\+/, "e");
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return plain(value);
  return String(Number(value.toPrecision(digits)));
}
const count = (number, noun) => `${plain(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (part) => `${short(100 * part)} %`;

// As `duration_text` in text/durations.py: "0.25 s", "42 s", "1 min 30 s", "12 min", "1 h 20 min", "3 d 4 h".
const [MINUTE, HOUR, DAY] = [60, 3600, 86400];
function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 0.0005) return "0 s";
  if (seconds < 9.95) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < MINUTE - 0.5) return `${Math.round(seconds)} s`;
  if (seconds < 10 * MINUTE - 0.5) return two(Math.round(seconds), 60, "min", "s");
  if (seconds < HOUR - MINUTE / 2) return `${Math.round(seconds / MINUTE)} min`;
  if (seconds < DAY - MINUTE / 2) return two(Math.round(seconds / MINUTE), 60, "h", "min");
  if (seconds < 100 * DAY - HOUR / 2) return two(Math.round(seconds / HOUR), 24, "d", "h");
  return `${short(seconds / DAY)} d`;
}

function two(number, per, large, small) {
  const [whole, rest] = [Math.floor(number / per), number % per];
  return rest ? `${whole} ${large} ${rest} ${small}` : `${whole} ${large}`;
}

// As `latency_text` there: "12.3 ms", "1.25 s".
function latency(seconds) {
  if (seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  return seconds < 9.95 ? `${Number(seconds.toPrecision(3))} s` : duration(seconds);
}

// As `money_text` in text/money.py: "10.30 €", "0.12".
function moneyText(amount, currency = "") {
  const told = Math.abs(amount) >= 1 || !amount ? amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : String(Number(amount.toPrecision(2)));
  return `${told} ${currency}`.trimEnd();
}

// As `clock` in text/times.py: 18:40 today, 3 Oct 18:40 this year, else 3 Oct 2027 18:40.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
function clockText(at, seconds = false, now = Date.now() / 1000) {
  const [then, today] = [new Date(at * 1000), new Date(now * 1000)];
  const told = then.toTimeString().slice(0, seconds ? 8 : 5);
  if (then.toDateString() === today.toDateString()) return told;
  const year = then.getFullYear() === today.getFullYear() ? "" : ` ${then.getFullYear()}`;
  return `${then.getDate()} ${MONTHS[then.getMonth()]}${year} ${told}`;
}

const STEPS = [
  ...[1, 2, 5, 10, 15, 30], ...[1, 2, 5, 10, 15, 30].map((n) => n * 60),
  ...[1, 2, 3, 6, 12].map((n) => n * 3600), ...[1, 2, 5, 7, 14, 28, 56, 91, 182, 364].map((n) => n * 86400),
];

// The largest unit the step is a whole number of; 12 h steps over weeks are better told in days.
function unitOf(step, to) {
  return UNITS.find(([, size]) => step >= size || (step >= size / 2 && to > 4 * size)) ?? UNITS[3];
}

function timeTicks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const step = STEPS.find((s) => s >= rough) ?? niceStep(rough);
  const exact = rough < 1 ? niceStep(rough) : step;
  const [unit, size] = unitOf(exact, to);
  return ticksAt(from, to, exact).map((at) => ({ at, label: at === 0 ? "0" : `${short(at / size, 8)} ${unit}` }));
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough * 0.9999);
}

function ticksAt(from, to, step) {
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n++) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

const numberTicks = (to, most, label) => ticksAt(0, to, niceStep(to / most)).map((at) => ({ at, label: label(at) }));

// On a logarithmic axis people look for their units, not for powers of ten.
const LANDMARKS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400];
const BETWEEN = [
  ...[0.001, 0.01, 0.1, 1, 10].flatMap((n) => [2 * n, 5 * n]), 30, 120, 300, 1200, 1800, 7200, 4 * 3600, 12 * 3600,
  ...[2, 4, 14, 60, 120, 240].map((days) => days * 86400),
];

// All that have room, the landmarks first.
function logTicks(from, to, pixels) {
  const place = (at) => (pixels * Math.log(at / from)) / Math.log(to / from);
  const kept = [];
  for (const at of [...LANDMARKS, ...BETWEEN]) {
    const x = place(at);
    if (x > -1 && x < pixels + 1 && kept.every((other) => Math.abs(place(other) - x) > 58)) kept.push(at);
  }
  return kept.map((at) => ({ at, label: duration(at) }));
}

// Twelve colours as far apart as can be, also for people who do not tell red from green; a test
// measures it. Further policies repeat them with dashes.
const POLICY_COLOURS = 12;
const DASHES = ["", "7 3", "2 3"];
const policyColour = (run) => `var(--p${run % POLICY_COLOURS})`;
const policyDash = (run) => DASHES[Math.floor(run / POLICY_COLOURS) % DASHES.length];

const JOB_COLOURS = {
  light: ["#5b4fb5", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499", "#6699cc", "#c98b3c", "#4a7a8c"],
  dark: ["#8f84e0", "#88ccee", "#44aa99", "#3f9e5c", "#a8a84a", "#ddcc77", "#d9798a", "#b35a86", "#c76bb8", "#6699cc", "#d69c52", "#6c9cad"],
};
const SIZE_COLOURS = { light: ["#a9d5c2", "#4aa6a8", "#2a6f97", "#2b2e63"], dark: ["#3d6f8f", "#4aa6a8", "#8fd3a8", "#f3e58a"] };
const OUTCOME_COLOURS = { finished: "--c0", failed: "--c1", cancelled: "--c5" };

const isDark = () => document.documentElement.dataset.theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches;
const shades = (table) => table[isDark() ? "dark" : "light"];

// FNV-1a, well mixed: a job keeps its colour from report to report.
function hash(text) {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  value = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d);
  return (value ^ (value >>> 13)) >>> 0;
}
const hashColour = (text) => { const all = shades(JOB_COLOURS); return all[hash(text) % all.length]; };

function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 135 ? "#111111" : "#ffffff";
}

const swatch = (colour) => svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, svg("rect", { width: 12, height: 12, rx: 2, fill: colour }));
const stroke = (run) => svg("svg", { width: 26, height: 8, "aria-hidden": "true" },
  svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: policyColour(run), "stroke-width": 3, "stroke-dasharray": policyDash(run) }));

// What each job's colour is, and the key to tell it.
function colouring(by, jobs) {
  if (by === "size") {
    const classOf = (gpus) => (gpus <= 1 ? 0 : gpus <= 4 ? 1 : gpus <= 8 ? 2 : 3);
    const colours = shades(SIZE_COLOURS);
    return { of: (job) => colours[classOf(job.gpus)], key: ["1 GPU", "2–4 GPUs", "5–8 GPUs", "> 8 GPUs"].map((name, i) => [name, colours[i]]) };
  }
  if (by === "outcome") {
    const of = (outcome) => css(OUTCOME_COLOURS[outcome] ?? "--c6");
    return { of: (job) => of(job.outcome), key: [...new Set(jobs.map((job) => job.outcome))].sort().map((outcome) => [outcome, of(outcome)]) };
  }
  return by === "user" ? byUser(jobs) : { of: (job) => hashColour(job.id), key: [] };
}

// The users with most GPU time among the drawn get a colour each, the others share one.
function byUser(jobs) {
  const time = new Map();
  for (const job of jobs) for (const { from, to } of job.stints) time.set(job.user, (time.get(job.user) ?? 0) + job.gpus * (to - from));
  const colours = shades(JOB_COLOURS).slice(0, 10);
  const users = [...time.keys()].sort((a, b) => time.get(b) - time.get(a));
  const colourOf = new Map(users.slice(0, colours.length).map((user, i) => [user, colours[i]]));
  const rest = css("--c6");
  const key = [...colourOf].map(([user, colour]) => [user || "(no user)", colour]);
  if (users.length > colours.length) key.push([count(users.length - colours.length, "other user"), rest]);
  return { of: (job) => colourOf.get(job.user) ?? rest, key };
}

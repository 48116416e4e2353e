// Asking the daemon. What it refuses is one line that says the way out; that line is shown as it is.
class Refused extends Error {
  constructor(status, told) { super(told); this.status = status; }
}

const SAME_PAGE = { "x-dovetail-page": "1" }; // no form of another site can send it

async function ask(path, { method = "GET", body, signal, headers = {} } = {}) {
  const options = { method, signal, headers: { ...SAME_PAGE, ...headers }, cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) { options.body = JSON.stringify(body); options.headers["content-type"] = "application/json"; }
  const answer = await fetch(path, options);
  if (!answer.ok && answer.status !== 304) throw new Refused(answer.status, await toldBy(answer));
  return answer;
}

async function toldBy(answer) {
  const text = await answer.text();
  try { return JSON.parse(text).error; } catch { return text || `the daemon answered ${answer.status}`; }
}

const get = async (path, signal) => (await ask(path, { signal })).json();
const post = async (path, body = {}) => (await ask(path, { method: "POST", body })).json();
const put = async (path, body) => (await ask(path, { method: "PUT", body })).json();

// Who looks; asked once.
let known = null;
const me = () => (known ??= get("/v1/page/me").then((told) => { told.ahead_s = told.now - Date.now() / 1000; return told; }));

// Between a question and its answer another may have been asked: only the last answer counts.
function latest(work) {
  let number = 0;
  return async (...given) => {
    const own = ++number;
    const found = await work(...given);
    return own === number ? found : undefined;
  };
}

function say(place, text, bad = false) {
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

// A daemon that is away is no failure of the page: the state of the connection is shown at the top.
const isAway = (error) => error instanceof TypeError || error.name === "AbortError" || error.status === 502 || error.status === 503;
function shown(error) {
  if (!isAway(error)) report(error.message);
}

// Where a job is: nodes have their numbers in placements and their names for people.
const nodeNames = (nodes) => new Map(nodes.map((node) => [node.number, node.id]));
function places(on, names) {
  return on.filter((piece) => piece.gpus.length).map((piece) => (
    names.size > 1 ? `${names.get(piece.node) ?? `node ${piece.node}`}: ${spans(piece.gpus)}` : `GPU ${spans(piece.gpus)}`
  )).join(", ") || "no GPU";
}

// GPU 2 closed by ann: its fan. `reasons`: of each GPU, "" where it is open.
function closedText(gpus, reasons) {
  const found = [...new Set(reasons)].filter(Boolean);
  return found.map((why) => `GPU ${spans(gpus.filter((gpu, place) => reasons[place] === why))} closed ${why}`).join("; ");
}

// 0-3,6
function spans(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && last[1] === number - 1) last[1] = number; else found.push([number, number]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(",");
}

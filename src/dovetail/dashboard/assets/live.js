// One stream for each open page says what has changed, at most four times a second: see `PageUpdate`.
// A page that nobody sees lets its stream go, and is read anew when it is looked at again.
const STREAM = "/v1/page/stream";
const AGAIN_MS = 1000;
const ANEW = { complete: false, jobs: [], nodes: [], studies: [], services: [], settings: true };

const live = { listeners: [], source: null, seq: 0, told: 0, kept: false, pages: 1 };

function onChange(listener) { live.listeners.push(listener); }

function tell(message) {
  live.seq = Math.max(live.seq, message.seq ?? 0);
  live.told += 1;
  live.pages = message.pages ?? live.pages;
  for (const listener of live.listeners) Promise.resolve(listener(message)).catch(shown);
}

function connection(text, state) {
  const place = $$("#live");
  if (place.dataset.state === state) return;
  place.dataset.state = state;
  place.textContent = text;
}

function connect() {
  if (live.source || (document.hidden && !live.kept)) return;
  const source = (live.source = new EventSource(STREAM));
  source.onopen = () => { connection("live", "live"); tell(ANEW); };
  source.onmessage = (event) => { connection("live", "live"); tell(JSON.parse(event.data)); };
  source.onerror = async () => {
    disconnect();
    connection("no connection; trying again", "away");
    setTimeout(connect, AGAIN_MS);
    if ((await isOut()) && (await me()).network) location.href = "/page/login";
  };
}

function disconnect() {
  live.source?.close();
  live.source = null;
}

// Who asked to be told of something is told behind other pages too.
function keepLive() { live.kept = true; connect(); }

document.addEventListener("visibilitychange", () => { if (!document.hidden) connect(); else if (!live.kept) disconnect(); });
addEventListener("pagehide", disconnect);

// At most so often, and always once more after the last call. Where many pages are open each asks less
// often: a hundred of them ask the daemon as much as ten.
const CROWD = 10;
function atMost(everyMs, work) {
  let [last, timer] = [-Infinity, null];
  const run = async () => {
    timer = null;
    last = performance.now();
    try { await work(); } catch (error) { shown(error); }
  };
  return () => {
    if (timer !== null) return;
    timer = setTimeout(run, Math.max(0, last + everyMs * Math.max(1, live.pages / CROWD) - performance.now()));
  };
}

// Who looks, and the way out for who came by a token. Where that is no longer good, to the login.
async function showWho() {
  const told = await me();
  $$("#who").textContent = told.user;
  $$("#logout").hidden = !told.network;
}

async function isOut() {
  try { await get("/v1/page/me"); } catch (error) { return error.status === 401; }
  return false;
}

addEventListener("DOMContentLoaded", () => { connect(); showWho().catch(shown); });

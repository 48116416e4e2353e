// The page Now: figures, a lane for each GPU, who runs and who waits.
const now = { told: null, tag: "", past: [], ahead: null, ahead_s: 0, nodes: new Map() };
const clockNow = () => Date.now() / 1000 + now.ahead_s;

const figure = (name, value, unit = "") => el("div", {}, el("dt", {}, name), el("dd", {}, value, unit ? el("small", {}, ` ${unit}`) : null));
const gpuText = (row) => (row.share === 1 ? String(row.gpus) : short(row.share * row.gpus));

function places(on) {
  return on.filter((piece) => piece.gpus.length).map((piece) => {
    const name = now.nodes.get(piece.node)?.id ?? `node ${piece.node}`;
    return now.nodes.size > 1 ? `${name}: ${spans(piece.gpus)}` : `GPU ${spans(piece.gpus)}`;
  }).join(", ") || "no GPU";
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

function showFigures() {
  const told = now.told;
  const all = told.nodes.reduce((sum, node) => sum + (node.up ? node.gpus : 0), 0);
  const used = told.running.reduce((sum, row) => sum + row.share * row.gpus, 0);
  const drawn = told.nodes.flatMap((node) => node.watts).filter((own) => own !== null);
  const watts = drawn.length ? [`${plain(drawn.reduce((sum, own) => sum + own, 0))}`, "W"] : ["–", "not measured"];
  $$("#figures").replaceChildren(
    figure("GPUs in use", short(used), `of ${plain(all)}`), figure("Running", plain(told.running.length)),
    figure("Waiting", plain(told.waiting)), figure("Power", ...watts),
    figure("Cost of this hour", ...(now.cost ?? ["–", ""])), figure("Policy", told.policy),
  );
  $$("#trouble").hidden = !told.trouble;
  $$("#trouble").textContent = told.trouble;
}

const renew = latest(async () => {
  const answer = await ask("/v1/page/now", { headers: now.tag ? { "if-none-match": now.tag } : {} });
  if (answer.status === 304) return null;
  now.tag = answer.headers.get("etag");
  return answer.json();
});

async function refresh() {
  const told = await renew();
  if (!told) return;
  now.told = told;
  now.ahead_s = told.at - Date.now() / 1000;
  now.nodes = new Map(told.nodes.map((node) => [node.number, node]));
  showFigures();
  running.renew();
}

const running = new VirtualList($$("#running"), {
  label: "Running jobs", columns: 5, most: 330,
  load: async (first, most) => ({ total: now.told.running.length, rows: now.told.running.slice(first, first + most) }),
  draw: (row, place, element) => {
    element.replaceChildren(
      el("span", { role: "cell" }, el("a", { href: `/page/job/${row.id}` }, row.id)), cell(row.name), cell(row.user),
      cell(places(row.on)), cell(duration(Math.max(0, clockNow() - row.since))),
    );
  },
});

const queue = new VirtualList($$("#queue"), {
  label: "Queue", columns: 8, most: 460,
  load: async (first, most) => {
    const user = $$("#mine").checked ? `&user=${encodeURIComponent((await me()).user)}` : "";
    return get(`/v1/page/line?first=${first}&most=${most}${user}`);
  },
  draw: (row, place, element) => {
    element.replaceChildren(
      cell(String(place + 1), "number"), el("span", { role: "cell" }, el("a", { href: `/page/job/${row.id}` }, row.id)),
      cell(row.name), cell(row.user), cell(gpuText(row), "number"), cell(duration(Math.max(0, clockNow() - row.submitted_at))),
      cell(""), cell(row.note),
    );
  },
});

const refreshNow = atMost(200, refresh);
const refreshQueue = atMost(500, () => queue.renew());
onChange(() => { refreshNow(); refreshQueue(); });
refresh().then(() => queue.renew()).catch(shown);

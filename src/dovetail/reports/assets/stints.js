// The stints of one run, unpacked from the numbers in the page.
function unpack(run, data) {
  const { tick, stints, jobs } = run.gantt;
  const start = run.window[0];
  const table = jobs.map(([id, user, gpus, submit, wait, end, preemptions, outcome]) => ({
    id: data.texts[id], user: data.texts[user], gpus, submit: start + submit * tick, wait: wait * tick,
    end: start + end * tick, preemptions, outcome: data.texts[outcome], stints: [],
  }));
  const boxes = [];
  for (let at = 0, now = 0; at < stints.length;) {
    const [job, later, length, share, parts] = stints.slice(at, at + 5);
    now += later;
    const stint = { job: table[job], from: start + now * tick, to: start + (now + length) * tick, share, number: table[job].stints.length + 1 };
    table[job].stints.push(stint);
    at += 5;
    for (let part = 0; part < parts; part++, at += 2) boxes.push({ stint, top: stints[at], rows: stints[at + 1], offset: 0 });
  }
  stack(boxes);
  const nodes = [];
  const nodeOf = [];
  let row = 0;
  for (const [id, gpus, kind] of data.clusters[run.cluster]) {
    nodes.push({ id: data.texts[id], kind: data.texts[kind], gpus, row });
    for (let gpu = 0; gpu < gpus; gpu++) nodeOf.push(nodes.at(-1));
    row += gpus;
  }
  return { jobs: table, boxes, nodes, nodeOf, rows: row, byId: new Map(table.map((job) => [job.id, job])), shade: shade(run.gantt.busy) };
}

// Jobs that share a GPU lie one above the other: each takes the lowest free part of the row.
function stack(boxes) {
  const here = new Map();
  for (const box of boxes) {
    const { share, from } = box.stint;
    if (share === 1000) continue;
    const others = (here.get(box.top) ?? []).filter((other) => other.stint.to > from).sort((a, b) => a.offset - b.offset);
    for (const other of others) {
      if (other.offset >= box.offset + share) break;
      box.offset = Math.max(box.offset, other.offset + other.stint.share);
    }
    box.offset = Math.min(box.offset, 1000 - share);
    here.set(box.top, [...others, box]);
  }
}

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
function shade(busy) {
  if (!busy) return null;
  const value = new Map([...LETTERS].map((letter, i) => [letter, i / 63]));
  const levels = Float32Array.from(busy.levels, (letter) => value.get(letter));
  return { ...busy, levels, lines: levels.length / busy.bins };
}

// As a picture with a pixel a bin, which the canvas then stretches over the rows.
function shadePicture({ levels, bins, lines }, colour) {
  const picture = el("canvas", { width: bins, height: Math.max(1, lines) });
  const context = picture.getContext("2d");
  const image = context.createImageData(bins, Math.max(1, lines));
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  levels.forEach((level, i) => image.data.set([r, g, b, 40 * (level > 0) + 200 * level], 4 * i));
  context.putImageData(image, 0, 0);
  return picture;
}

function jobFacts(job) {
  return [
    ["User", job.user || "(none)"], ["GPUs", plain(job.gpus)], ["Submitted", duration(job.submit)], ["Waited", duration(job.wait)],
    ["Preemptions", plain(job.preemptions)], ["Outcome", job.outcome],
  ];
}

function stintFacts(stint) {
  const share = stint.share === 1000 ? [] : [["Share", `${stint.share / 10} %`]];
  return [...share, ["This stint", `${duration(stint.from)} to ${duration(stint.to)}`], ["Lasting", duration(stint.to - stint.from)]];
}

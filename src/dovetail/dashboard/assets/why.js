// What `dovetail why` says: there it is folded for a terminal, here it folds as the screen wants.
const [WHY_LABEL, WHY_WIDTH] = [11, 90];

// Lines that were folded in one again: the next word had no room on the line before.
function unfolded(lines, width) {
  const found = [];
  let last = null;
  for (const line of lines) {
    const goesOn = last !== null && last.length + 1 + line.split(" ")[0].length > width;
    if (goesOn) found.push(`${found.pop()} ${line}`); else found.push(line);
    last = line;
  }
  return found;
}

function whyParts(text) {
  const lines = text.split("\n");
  const blank = lines.includes("") ? lines.indexOf("") : lines.length;
  const rows = [];
  for (const line of lines.slice(blank + 1)) {
    const label = line.slice(0, WHY_LABEL).trim();
    if (label || !rows.length) rows.push([label, []]);
    rows.at(-1)[1].push(line.slice(WHY_LABEL));
  }
  const told = (own) => el("dd", {}, ...unfolded(own, WHY_WIDTH - WHY_LABEL).map((line) => el("div", {}, line)));
  return [
    ...unfolded(lines.slice(0, blank), WHY_WIDTH).map((line) => el("p", { class: "told" }, line)),
    el("dl", { class: "facts-list" }, ...rows.flatMap(([label, own]) => [el("dt", {}, label), told(own)])),
  ];
}

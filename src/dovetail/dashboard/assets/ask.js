// The form of whatif: a job file, a time, a budget; the answer as a few options.
const IN_TIME = { yes: "yes", likely: "likely", perhaps: "perhaps", no: "no", unknown: "unknown" };

function span(own, now) {
  if (!own) return "unknown";
  const away = own.expected - now < 1 ? "now" : `in ${duration(own.expected - now)}`;
  return `${away}, ${clockText(own.expected)}${own.high !== null && own.high - own.low > 60 ? ` (${clockText(own.low)} to ${clockText(own.high)})` : ""}${own.guess ? "; a guess" : ""}`;
}

function option(own, told, first) {
  const facts = [["starts", span(own.start, told.now)], ["ends", span(own.end, told.now)]];
  if (own.in_time) facts.push(["in time", IN_TIME[own.in_time]]);
  if (own.late_s) facts.push(["late by", duration(own.late_s)]);
  facts.push(["cost", own.cost ? moneyText(own.cost.total, told.currency) : "unknown"]);
  if (own.others.later) facts.push(["others", `${count(own.others.later, "job")} later, by at most ${duration(own.others.most_s)}`]);
  return el("article", { class: `option ${first ? "first" : ""}` }, el("h3", {}, own.change[0].toUpperCase() + own.change.slice(1)),
    el("dl", {}, ...facts.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
}

function show(told) {
  const most = $$("#most").value === "" ? Infinity : Number($$("#most").value);
  const all = [told.as_asked, ...told.alternatives];
  const kept = all.filter((own) => !own.cost || own.cost.total <= most);
  const dear = all.length - kept.length;
  $$("#s-answer").hidden = false;
  const why = dear ? ` ${count(dear, "option")} would cost more than ${moneyText(most, told.currency)}.` : "";
  say($$("#told"), `${told.name}, ${count(told.gpus, "GPU")}, under ${told.policy}: ${count(kept.length, "option")}.${why}`);
  $$("#options").replaceChildren(...kept.slice(0, 8).map((own, i) => option(own, told, i === 0)));
  $$("#limited").textContent = [told.uncosted && `Costs are unknown: ${told.uncosted}.`, told.limited && `Not taken into account: ${told.limited}.`, `It rests on ${told.as_asked.rests_on}.`].filter(Boolean).join(" ");
}

get("/v1/page/cost").then((told) => { $$("#currency").textContent = told.currency || "money"; }).catch(shown);
$$("#form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = $$("#form button");
  button.disabled = true;
  $$("#s-answer").hidden = false;
  say($$("#told"), "The simulator looks ahead …");
  $$("#options").replaceChildren();
  $$("#limited").textContent = "";
  try {
    show(await post("/v1/page/whatif", { text: $$("#text").value, by: $$("#by").value.trim() || null }));
  } catch (error) { say($$("#told"), error.message, true); }
  button.disabled = false;
});
$$("#file").addEventListener("change", async () => {
  const [file] = $$("#file").files;
  if (file) $$("#text").value = (await file.text()).slice(0, 200000);
});

// Boxes that show and hide policies in all charts.
function policyLegends(runs, shown, changed) {
  for (const legend of document.querySelectorAll(".legend.policies")) {
    legend.append(...runs.map((run, i) => el("label", {},
      el("input", { type: "checkbox", checked: true, "data-run": i, onchange: (event) => toggle(i, event.target.checked) }), stroke(i), run.policy)));
  }
  function toggle(run, on) {
    if (on) shown.add(run); else shown.delete(run);
    for (const box of document.querySelectorAll(`[data-run="${run}"]`)) box.checked = on;
    changed();
  }
}

// What every page does: it says a failure aloud instead of leaving empty boxes, and is white on paper.
function report(message) {
  const place = $$("#failure");
  place.textContent = `A part of this page could not be drawn: ${message}`;
  place.hidden = false;
}
addEventListener("error", (event) => report(event.message));
addEventListener("unhandledrejection", (event) => report(String(event.reason)));

function whiteOnPaper(repaint = () => {}) {
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; repaint(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; repaint(); });
}

function start(main) {
  main(JSON.parse($$("#data").textContent));
  document.documentElement.dataset.ready = "yes";
}

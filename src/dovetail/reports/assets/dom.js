// Small tools for building elements. Text from the data only ever goes in as text, never as HTML.
const $$ = (selector) => document.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

const tip = $$("#tip");
function showTip(event, title, rows) {
  tip.replaceChildren(
    el("b", {}, title),
    el("dl", {}, ...rows.flatMap(([name, value, mark]) => [el("dt", {}, mark ?? null, name), el("dd", {}, value)])),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = event.clientX + 16 + width > innerWidth;
  tip.style.left = `${Math.max(4, right ? event.clientX - 16 - width : event.clientX + 16)}px`;
  tip.style.top = `${clamp(event.clientY + 14, 4, Math.max(4, innerHeight - height - 4))}px`;
}
const hideTip = () => { tip.hidden = true; };

// Redraw when the width changes, and only then: drawing itself may change the height.
function onWidth(element, draw) {
  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now && now !== width) requestAnimationFrame(() => draw(width = now));
  }).observe(element);
}

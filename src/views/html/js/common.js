// What all pictures need: the data, names, and one place that says when all is drawn and what went wrong.
"use strict";
const page = document.documentElement;
addEventListener("error", (event) => { page.dataset.error = event.message; });
addEventListener("securitypolicyviolation", (event) => { page.dataset.error = `${event.violatedDirective}: ${event.blockedURI}`; });

const data = JSON.parse(document.getElementById("data").textContent);
const seconds = (ns) => ns / 1e9;
const nameOf = (process) => data.processes[process]?.name ?? "unknown";
const element = (id) => document.getElementById(id);
const isNarrow = () => innerWidth < 600;
const wideness = (node) => Math.max(280, node.clientWidth || node.parentElement.clientWidth || innerWidth - 40);

// Pictures by what draws them; each is drawn once at the start, and again when its width changes.
const pictures = [];
const picture = (id, draw) => { pictures.push({ id, draw, width: 0 }); };
function put(id, drawing) {
  element(id).replaceChildren(...(drawing ? [drawing] : []));
}
function drawOne(one) {
  const node = element(one.id);
  if (!node || node.closest("[hidden]") || one.width === node.clientWidth) return;
  one.width = node.clientWidth;
  one.draw(node);
}
// A legend has only what occurs: `occurs` says how many there are of each class, or nothing of those that are always there.
function legend(id, occurs) {
  element(id).closest("figure, section").querySelectorAll(".key").forEach((key) => { key.hidden = occurs[key.classList[1]] === 0; });
}
const drawAll = () => pictures.forEach(drawOne);
const watched = new ResizeObserver(() => requestAnimationFrame(drawAll));
addEventListener("beforeprint", drawAll);

// A text that is cut in the middle, where its end tells as much as its start.
const short = (text, most) => text.length <= most ? text : `${text.slice(0, most - 6)}…${text.slice(-5)}`;

// A stretch of time in words.
const duration = (length) => length >= 1 ? `${length.toPrecision(3)} s` : length >= 1e-3 ? `${(length * 1e3).toPrecision(3)} ms` : `${(length * 1e6).toPrecision(3)} us`;

// What an axis of moments shows.
const sinceBegin = "time since the recording began";

// Moments on an axis: with as many digits as tell its ticks apart.
const inSeconds = (length) => {
  const digits = Math.max(0, Math.min(9, Math.ceil(1 - Math.log10(length)) + 1));
  return (at) => at === 0 ? "0" : `${at.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")} s`;
};

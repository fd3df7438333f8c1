"use strict";
// What all drawings share: the data, colours, numbers, texts, elements.
const data = JSON.parse(document.getElementById("data").textContent);
const cells = Int8Array.from(atob(data.cells), (c) => c.charCodeAt(0));
const columns = data.steps.length;

const speak = (key, fields = {}) => {
  const lang = document.documentElement.lang === "zh" ? "zh" : "en";
  const words = data.texts[lang][key] ?? key;
  return words.replace(/\{(\w+)\}/g, (whole, name) => fields[name] ?? whole);
};

// The colour is a function of the bits alone, never of the other data.
function colourOf(code) {
  const { nan, inf, zero, unmeasured } = data.codes;
  if (code === unmeasured) return null;
  if (code === nan) return [213, 0, 249];
  if (code === inf) return [122, 0, 184];
  if (code === zero) return [158, 158, 158];
  const stops = data.stops;
  const bits = Math.min(Math.max(code / 4, stops[0][0]), stops.at(-1)[0]);
  const at = stops.findIndex(([end], i) => i > 0 && bits <= end);
  const [low, p] = stops[at - 1];
  const [high, q] = stops[at];
  const share = (bits - low) / (high - low);
  return p.map((x, i) => Math.round(x + (q[i] - x) * share));
}
const palette = new Map();
for (let code = -128; code < 128; code++) palette.set(code, colourOf(code));

const css = (rgb) => (rgb ? `rgb(${rgb.join(" ")})` : "transparent");
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function number(value) {
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en");
  return size >= 1e-3 && size < 1e5 ? String(+value.toPrecision(4)) : value.toExponential(2);
}

function describe(code) {
  const { nan, inf, zero, unmeasured } = data.codes;
  if (code === nan) return "NaN";
  if (code === inf) return "Inf";
  if (code === zero) return speak("zero");
  if (code === unmeasured) return speak("unmeasured");
  const bits = (code / 4).toFixed(2).replace("-", "−");
  return speak(code >= 125 ? "bits_or_more" : "bits", { bits });
}

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes = {}, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}

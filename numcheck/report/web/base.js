"use strict";
// What all pages share: the data, texts, numbers, elements.
const data = JSON.parse(document.getElementById("data").textContent);

const speak = (key, fields = {}) => {
  const lang = document.documentElement.lang === "zh" ? "zh" : "en";
  const words = data.texts[lang][key] ?? key;
  return words.replace(/\{(\w+)\}/g, (whole, name) => fields[name] ?? whole);
};

const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function number(value) {
  if (typeof value === "string") return value;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return value.toLocaleString("en");
  return size >= 1e-3 && size < 1e5 ? String(+value.toPrecision(4)) : value.toExponential(2);
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

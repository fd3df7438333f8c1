// Two runs: how far each point parts, and which rows of the table are shown.
const points = data.points.map(([size, verdict, name], at) => ({ size, verdict, name, at }));
const kinds = { different: "lost", "non-finite": "lost", downstream: "parted" };

// What a departure must exceed to be a difference: a jump over all that came before.
function bounds() {
  let worst = 1, parted = false;
  return points.map(({ size, verdict }) => {
    const bound = data.jump * worst;
    if (verdict === "different" || verdict === "non-finite") parted = true;
    if (!parted && typeof size === "number") worst = Math.max(worst, size);
    return parted && verdict === "downstream" ? null : bound;
  });
}

function chart() {
  const wide = 1100, tall = 240, left = 64, right = 10, head = 14, foot = 8;
  const limits = bounds();
  const sizes = [...points.map((p) => p.size), ...limits].filter((s) => typeof s === "number");
  const low = -5; // far below one rounding all is one: such dots lie on the ground
  const high = Math.ceil(Math.log2(sizes.reduce((a, b) => Math.max(a, b), 2 * data.jump))) + 1;
  const x = (at) => left + ((at + 0.5) / points.length) * (wide - left - right);
  const y = (size) => head + ((high - Math.log2(size)) / (high - low)) * (tall - head - foot);
  const svg = shape("svg", { viewBox: `0 0 ${wide} ${tall}`, width: "100%", role: "img" });
  svg.append(shape("title", {}, speak("title")));
  const stride = Math.max(1, Math.ceil((high - low) / 7));
  for (let power = Math.ceil(low / stride) * stride; power < high; power += stride) {
    svg.append(shape("line", { x1: left, x2: wide - right, y1: y(2 ** power), y2: y(2 ** power), class: "gridline" }));
    svg.append(shape("text", { x: left - 6, y: y(2 ** power) + 4, "text-anchor": "end" }, number(2 ** power)));
  }
  svg.append(shape("text", { x: left + 4, y: head + 2 }, speak("axis")));
  const path = limits.map((s, at) => (s === null ? "" : `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(s).toFixed(1)}`)).join("");
  svg.append(shape("path", { d: path, class: "bound" }));
  for (const { size, verdict, name, at } of points) {
    const finite = typeof size === "number";
    const height = finite ? (y(Math.max(size, 2 ** low))) : head;
    const dot = shape("circle", { cx: x(at), cy: height, r: kinds[verdict] === "lost" ? 6 : 3.5, class: kinds[verdict] ?? "bar", "data-point": at });
    dot.append(shape("title", {}, `${name}: ${size === 0 ? speak("equal") : number(size)}`));
    dot.addEventListener("click", () => choose(at));
    svg.append(dot);
  }
  return svg;
}

function choose(at) {
  for (const row of document.querySelectorAll("tr.chosen")) row.classList.remove("chosen");
  const row = document.getElementById(`point-${at}`);
  row.hidden = false;
  row.classList.add("chosen");
  row.scrollIntoView({ block: "center" });
}

function filter() {
  const wanted = document.getElementById("filter-place").value.toLowerCase();
  const parted = document.getElementById("filter-parted").checked;
  let shown = 0;
  for (const row of document.querySelectorAll("#rows tbody tr")) {
    const hit = row.textContent.toLowerCase().includes(wanted) && (!parted || row.dataset.verdict in kinds);
    row.hidden = !hit;
    shown += hit;
  }
  document.getElementById("shown").textContent = speak("shown", { n: shown, of: points.length });
}

page.redraw = () => {
  const home = document.getElementById("points");
  if (!home) return;
  home.replaceChildren(chart());
  filter();
};

page.keys["/"] = () => document.getElementById("filter-place")?.focus();
document.getElementById("filters")?.addEventListener("input", filter);
document.getElementById("filters")?.addEventListener("submit", (event) => event.preventDefault());
page.open();

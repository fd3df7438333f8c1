// Scalars over the steps. A value that is not finite is a cross at the top, never a gap.
const curves = {};

curves.draw = () => {
  const home = document.getElementById("curves");
  if (home) home.replaceChildren(...data.curves.map(curves.figure));
  const shadow = document.getElementById("departures");
  if (shadow) shadow.replaceChildren(curves.departures());
};

// Growth of the error along the program: one dot a site, in the order of execution.
curves.departures = () => {
  const wide = 1100, tall = 170, left = 60, foot = 20, head = 10;
  const points = data.departures.map(([index, error], at) => ({ index, error, at }));
  const sizes = points.map((p) => p.error).filter((e) => typeof e === "number" && e > 0);
  const low = Math.floor(Math.log10(sizes.reduce((a, b) => Math.min(a, b), 1e-3)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(sizes.reduce((a, b) => Math.max(a, b), 1e-3))));
  const x = (at) => left + ((at + 0.5) / points.length) * (wide - left - 8);
  const y = (error) => head + ((high - Math.log10(error)) / (high - low)) * (tall - head - foot);
  const svg = shape("svg", { viewBox: `0 0 ${wide} ${tall}`, width: "100%", role: "img" });
  svg.append(shape("title", {}, speak("departures_title")));
  const apart = Math.ceil((high - low) / 8);
  for (let power = low; power <= high; power++) {
    if (power % apart) continue;
    svg.append(shape("line", { x1: left, x2: wide - 8, y1: y(10 ** power), y2: y(10 ** power), class: "gridline" }));
    svg.append(shape("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, `1e${power}`));
  }
  for (const { index, error, at } of points) {
    const finite = typeof error === "number";
    const height = finite ? (error > 0 ? y(error) : tall - foot) : 4;
    const dot = shape("circle", { cx: x(at), cy: height, r: 3, class: finite ? "bar" : "lost" });
    dot.append(shape("title", {}, `${data.sites[index].name}: ${number(error)}`));
    svg.append(dot);
  }
  svg.append(shape("text", { x: left, y: tall - 4 }, speak("departures_axis")));
  return svg;
};

curves.figure = (curve) => {
  const { steps, values } = curve;
  const named = curve.name[document.documentElement.lang === "zh" ? "zh" : "en"];
  const finite = values.filter((v) => typeof v === "number");
  const broken = values.length - finite.length;
  const low = finite.length ? finite.reduce((a, b) => Math.min(a, b)) : 0;
  const high = finite.length ? finite.reduce((a, b) => Math.max(a, b)) : 1;
  const logarithmic = low > 0 && high / low > 100;
  const scaled = logarithmic ? Math.log10 : (v) => v;
  const [bottom, top] = [scaled(low), scaled(high)];
  const wide = 340, tall = 130, left = 56, right = 8, head = 14, foot = 18;
  const first = steps[0], last = steps.at(-1);
  const x = (step) => left + (last > first ? (step - first) / (last - first) : 0.5) * (wide - left - right);
  const y = (v) => head + (top > bottom ? (top - scaled(v)) / (top - bottom) : 0.5) * (tall - head - foot);
  const svg = shape("svg", { viewBox: `0 0 ${wide} ${tall}`, width: "100%", role: "img" });
  const summary = speak("curve_summary", { name: named, last: number(values.at(-1)), low: number(low), high: number(high) });
  svg.append(shape("title", {}, summary));
  for (const v of top > bottom ? [low, high] : [low]) {
    svg.append(shape("line", { x1: left, x2: wide - right, y1: y(v), y2: y(v), class: "gridline" }));
    svg.append(shape("text", { x: left - 4, y: y(v) + 4, "text-anchor": "end" }, number(v)));
  }
  svg.append(shape("text", { x: left, y: tall - 4 }, String(first)));
  if (last > first) svg.append(shape("text", { x: wide - right, y: tall - 4, "text-anchor": "end" }, String(last)));
  let path = "", pen = false;
  values.forEach((v, i) => {
    if (typeof v === "number") {
      path += `${pen ? "L" : "M"}${x(steps[i]).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
      return;
    }
    pen = false;
    const at = x(steps[i]);
    const cross = shape("path", { d: `M${at - 4} 4l8 8m0 -8l-8 8`, class: "broken" });
    cross.append(shape("title", {}, `${v}, ${speak("step", { step: steps[i] })}`));
    svg.append(cross);
  });
  svg.append(shape("path", { d: path, class: "curve" }));
  if (finite.length === 1) {
    const i = values.findIndex((v) => typeof v === "number");
    svg.append(shape("circle", { cx: x(steps[i]), cy: y(values[i]), r: 3, class: "bar" }));
  }
  const reading = element("span", { class: "dim" }, curves.note(curve, broken, logarithmic));
  const cursor = shape("line", { y1: head, y2: tall - foot, class: "cursor", visibility: "hidden" });
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const step = first + (((event.clientX - box.left) / box.width) * wide - left) / (wide - left - right) * (last - first);
    let near = 0;
    steps.forEach((s, i) => { if (Math.abs(s - step) < Math.abs(steps[near] - step)) near = i; });
    cursor.setAttribute("x1", x(steps[near]));
    cursor.setAttribute("x2", x(steps[near]));
    cursor.setAttribute("visibility", "visible");
    reading.textContent = `${speak("step", { step: steps[near] })}: ${number(values[near])}`;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    reading.textContent = curves.note(curve, broken, logarithmic);
  });
  return element("figure", {}, element("figcaption", {}, element("b", {}, named), reading), svg);
};

curves.note = (curve, broken, logarithmic) => {
  const notes = [];
  if (broken) notes.push(speak("not_finite", { n: broken }));
  if (logarithmic) notes.push(speak("log_scale"));
  if (curve.thinned) notes.push(speak("thinned"));
  return notes.join(" · ");
};

// One tensor's exponents against the ranges of narrower formats.
const histogram = { site: null };

// Shares of the non-zero finite values that a format would lose. A value in the format's
// highest binade may lie above its largest number, so that binade counts as an upper
// bound when the tensor's amax does.
histogram.fate = (row, format) => {
  let over = 0, flushed = 0, subnormal = 0, total = 0;
  row.counts.forEach((count, i) => {
    const e = row.e0 + i;
    total += count;
    if (e > format.emax) over += count;
    else if (e < format.lowest - 1) flushed += count;
    else if (e < format.emin) subnormal += count;
  });
  const top = row.counts[format.emax - row.e0] ?? 0;
  const unsure = top > 0 && row.amax > format.max;
  return { over, flushed, subnormal, total, most: unsure ? over + top : over };
};

histogram.show = (index) => {
  histogram.site = index;
  const site = data.sites[index];
  const row = data.distributions[index];
  const name = document.getElementById("histogram-name");
  const chart = document.getElementById("histogram");
  const table = document.getElementById("histogram-table");
  if (!name) return;
  chart.replaceChildren();
  table.replaceChildren();
  if (!row) {
    name.textContent = `${site.name}: ${speak("no_measurement")}`;
    return;
  }
  name.textContent = `${site.name} · ${site.dtype || "–"} · ${speak("step", { step: row.step })} · ${histogram.counts(row)}`;
  if (!row.counts) {
    chart.append(element("p", { class: "dim" }, speak("no_histogram")));
    return;
  }
  chart.append(histogram.draw(row));
  table.append(histogram.table(row));
};

histogram.counts = (row) => {
  const parts = [`n ${number(row.n)}`];
  const infinite = (row.pos_inf ?? 0) + (row.neg_inf ?? 0);
  if (row.nan) parts.push(`NaN ${number(row.nan)}`);
  if (infinite) parts.push(`Inf ${number(infinite)}`);
  if (row.zero) parts.push(`0: ${number(row.zero)}`);
  if (row.amax !== undefined) parts.push(`amax ${number(row.amax)}`);
  if (row.amin !== undefined) parts.push(`amin ${number(row.amin)}`);
  if (row.mean !== undefined) parts.push(`${speak("mean")} ${number(row.mean)}`);
  if (row.std !== undefined) parts.push(`${speak("deviation")} ${number(row.std)}`);
  return parts.join(" · ");
};

histogram.draw = (row) => {
  const half = data.formats[0];
  const low = Math.min(row.e0, half.lowest) - 2;
  const high = Math.max(row.e0 + row.counts.length, half.emax + 1) + 2;
  const room = Math.max(320, (document.getElementById("histogram").clientWidth || 900) - 4);
  const names = 118, tall = 150, line = 17;
  const wide = (room - names) / (high - low);
  const x = (e) => names + (e - low) * wide;
  const bottom = tall + 22 + data.formats.length * line;
  const svg = shape("svg", { width: room, height: bottom + 6, role: "img" });
  svg.append(shape("title", {}, speak("histogram_title")));
  const stride = [1, 2, 4, 8, 16, 32, 64].find((s) => s * wide >= 34) ?? 128;
  for (let e = Math.ceil(low / stride) * stride; e < high; e += stride) {
    svg.append(shape("line", { x1: x(e), x2: x(e), y1: 0, y2: bottom, class: "gridline" }));
    svg.append(shape("text", { x: x(e) + 2, y: tall + 14 }, `2^${e}`.replace("-", "−")));
  }
  const top = Math.log10(1 + Math.max(...row.counts));
  row.counts.forEach((count, i) => {
    if (!count) return;
    const e = row.e0 + i;
    const size = Math.max(2, (tall - 8) * Math.log10(1 + count) / top);
    const kind = e > half.emax || e < half.lowest - 1 ? "lost" : e < half.emin ? "low" : "bar";
    const bar = shape("rect", { x: x(e) + 0.5, y: tall - size, width: Math.max(1, wide - 1), height: size, class: kind });
    bar.append(shape("title", {}, `2^${e} … 2^${e + 1}: ${number(count)}`));
    svg.append(bar);
  });
  svg.append(shape("line", { x1: names, x2: room, y1: tall, y2: tall, class: "axis" }));
  svg.append(shape("text", { x: 0, y: 12 }, speak("count_log")));
  data.formats.forEach((format, i) => histogram.range(svg, format, tall + 24 + i * line, x, low, high));
  return svg;
};

histogram.range = (svg, format, y, x, low, high) => {
  const clip = (e) => x(Math.max(low, Math.min(high, e)));
  svg.append(shape("text", { x: 0, y: y + 10 }, format.name));
  const spans = [["subnormal", format.lowest, format.emin], ["range", format.emin, format.emax + 1]];
  for (const [kind, from, to] of spans) {
    const width = clip(to) - clip(from);
    if (width > 0) svg.append(shape("rect", { x: clip(from), y, width, height: 11, rx: 2, class: kind }));
  }
};

histogram.table = (row) => {
  const heads = ["format", "overflows", "flushes", "loses_bits"].map((key) => element("th", {}, key === "format" ? speak("format") : speak(key)));
  const percent = (count, total) => (count === 0 ? "0" : count / total < 1e-4 ? "<0.01 %" : `${(100 * count / total).toFixed(2)} %`);
  const body = data.formats.map((format) => {
    const fate = histogram.fate(row, format);
    const over = fate.most > fate.over ? `${percent(fate.over, fate.total)} – ${percent(fate.most, fate.total)}` : percent(fate.over, fate.total);
    const values = [over, percent(fate.flushed, fate.total), percent(fate.subnormal, fate.total)];
    return element("tr", {}, element("th", { scope: "row" }, format.name), ...values.map((v, i) =>
      element("td", { class: v !== "0" && i < 2 ? "num failed" : "num" }, v)));
  });
  heads.slice(1).forEach((head) => head.setAttribute("class", "num"));
  return element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
};

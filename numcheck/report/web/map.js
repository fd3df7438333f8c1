// The headroom map: sites downwards, steps to the right, drawn worst-first, so that one
// bad cell is seen however many cells share a pixel.
const map = {
  canvas: document.getElementById("map"),
  rows: data.rows.map((_, row) => row), // rows that pass the filters
  view: { left: 0, right: columns, top: 0, bottom: data.rows.length },
  picked: null, // { row, column }
  gutter: 0,
  listeners: [],
};

map.site = (row) => data.sites[data.rows[row]];
map.code = (row, column) => cells[row * columns + column];

map.filter = () => {
  const wanted = document.getElementById("filter-module").value.trim().toLowerCase();
  const phase = document.getElementById("filter-phase").value;
  const dtype = document.getElementById("filter-dtype").value;
  const atRisk = document.getElementById("filter-risk").checked;
  map.rows = data.rows.map((_, row) => row).filter((row) => {
    const site = map.site(row);
    if (phase && site.phase !== phase) return false;
    if (dtype && site.dtype !== dtype) return false;
    if (wanted && !site.name.toLowerCase().includes(wanted)) return false;
    return !atRisk || map.worst(row) < 8; // two bits
  });
  map.reset();
};

map.worst = (row) => {
  let worst = 127;
  for (let column = 0; column < columns; column++) worst = Math.min(worst, map.code(row, column));
  return worst;
};

map.reset = () => {
  map.view = { left: 0, right: columns, top: 0, bottom: map.rows.length };
  map.draw();
};

map.draw = () => {
  const { canvas, view } = map;
  if (!canvas) return;
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth || 800;
  const shown = view.bottom - view.top;
  const height = Math.round(Math.min(520, Math.max(120, map.rows.length * 15))) + 22;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const labelled = shown > 0 && (height - 22) / shown >= 11;
  map.gutter = labelled ? Math.min(300, Math.round(width * 0.3)) : 0;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.clearRect(0, 0, width, height);
  if (!map.rows.length) {
    context.fillStyle = themed("--dim");
    context.fillText(speak("no_rows"), 12, 24);
    return;
  }
  map.area = { x: map.gutter, y: 0, width: width - map.gutter, height: height - 22 };
  map.paint(context, scale);
  if (labelled) map.label(context);
  map.ticks(context, height);
  map.outline(context);
};

map.paint = (context, scale) => {
  const { area, view, rows } = map;
  const width = Math.max(1, Math.round(area.width * scale));
  const height = Math.max(1, Math.round(area.height * scale));
  const image = context.createImageData(width, height);
  // What each pixel covers: one cell where cells are larger, else all from start to stop.
  const covered = (from, to, pixels) =>
    Array.from({ length: pixels }, (_, pixel) => {
      const start = Math.floor(from + ((to - from) * pixel) / pixels);
      const stop = Math.ceil(from + ((to - from) * (pixel + 1)) / pixels);
      return [start, to - from > pixels ? stop : start + 1];
    });
  const across = covered(view.left, view.right, width);
  const down = covered(view.top, view.bottom, height);
  for (let y = 0; y < height; y++) {
    const lines = rows.slice(...down[y]);
    for (let x = 0; x < width; x++) {
      const [start, stop] = across[x];
      let worst = 127;
      for (const row of lines) {
        for (let column = start; column < stop && column < columns; column++) {
          const code = cells[row * columns + column];
          if (code < worst) worst = code;
        }
      }
      const rgb = palette.get(worst);
      if (rgb) image.data.set([rgb[0], rgb[1], rgb[2], 255], 4 * (y * width + x));
    }
  }
  context.putImageData(image, Math.round(area.x * scale), Math.round(area.y * scale));
};

map.label = (context) => {
  const { area, view } = map;
  const tall = area.height / (view.bottom - view.top);
  context.font = "11px ui-monospace, DejaVu Sans Mono, monospace";
  context.fillStyle = themed("--fg");
  context.textBaseline = "middle";
  for (let at = Math.floor(view.top); at < view.bottom; at++) {
    if (map.rows[at] === undefined) continue;
    let name = map.site(map.rows[at]).name;
    while (name.length > 4 && context.measureText(name).width > map.gutter - 12) name = "…" + name.slice(2);
    context.fillText(name, 6, (at - view.top + 0.5) * tall);
  }
};

map.ticks = (context, height) => {
  const { area, view } = map;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = themed("--dim");
  context.textBaseline = "middle";
  const most = Math.max(1, Math.floor(area.width / 90));
  const stride = Math.max(1, Math.ceil((view.right - view.left) / most));
  for (let column = Math.ceil(view.left); column < view.right; column += stride) {
    const x = area.x + ((column - view.left) / (view.right - view.left)) * area.width;
    context.fillRect(x, height - 21, 1, 4);
    context.fillText(data.steps[column], x + 2, height - 10);
  }
};

map.outline = (context) => {
  const { area, view, picked } = map;
  if (!picked) return;
  const at = map.rows.indexOf(picked.row);
  if (at < 0) return;
  const wide = area.width / (view.right - view.left);
  const tall = area.height / (view.bottom - view.top);
  const x = area.x + (picked.column - view.left) * wide;
  const y = (at - view.top) * tall;
  if (x + wide < area.x || y + tall < 0 || x > area.x + area.width || y > area.height) return;
  context.save();
  context.beginPath();
  context.rect(area.x, 0, area.width, area.height);
  context.clip();
  const grown = (size) => Math.max(size, 6);
  for (const [colour, line] of [["#000", 4], ["#fff", 2]]) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x - (grown(wide) - wide) / 2, y - (grown(tall) - tall) / 2, grown(wide), grown(tall));
  }
  context.restore();
};

map.under = (event) => {
  const box = map.canvas.getBoundingClientRect();
  const { area, view } = map;
  const x = (event.clientX - box.left - area.x) / area.width;
  const y = (event.clientY - box.top) / area.height;
  if (x < 0 || x >= 1 || y < 0 || y >= 1) return null;
  const column = Math.floor(view.left + x * (view.right - view.left));
  const at = Math.floor(view.top + y * (view.bottom - view.top));
  const row = map.rows[at];
  return row === undefined || column < 0 || column >= columns ? null : { row, column, x, y };
};

map.say = (cell) => {
  const site = map.site(cell.row);
  const first = data.steps[cell.column];
  const last = (data.steps[cell.column + 1] ?? data.last_step + 1) - 1;
  const steps = data.steps_in_column > 1 && last > first ? `${first}–${last}` : first;
  const where = speak("cell", { steps, phase: speak(`phase_${site.phase}`), dtype: site.dtype || "–" });
  const place = site.place ? ` · ${site.place}` : "";
  document.getElementById("map-status").textContent =
    `${describe(map.code(cell.row, cell.column))} · ${site.name} · ${where}${place}`;
};

map.pick = (cell) => {
  map.picked = { row: cell.row, column: cell.column };
  map.reveal();
  map.say(map.picked);
  map.draw();
  for (const listener of map.listeners) listener(data.rows[cell.row]);
};

// Picks a site's row at a step; clears the filters where they hide it.
map.pickSite = (index, step) => {
  const row = data.rows.indexOf(index);
  if (row < 0) {
    if (index >= 0) for (const listener of map.listeners) listener(index);
    return;
  }
  if (!map.rows.includes(row)) {
    document.getElementById("filters").reset();
    map.filter();
  }
  let column = data.steps.findLastIndex((first) => first <= step);
  if (column < 0) column = columns - 1;
  map.pick({ row, column });
};

// Moves the window so that the picked cell lies in it.
map.reveal = () => {
  const { view, picked } = map;
  const at = map.rows.indexOf(picked.row);
  map.shift(Math.min(0, picked.column - view.left) + Math.max(0, picked.column + 1 - view.right),
    Math.min(0, at - view.top) + Math.max(0, at + 1 - view.bottom));
};

map.shift = (dx, dy) => {
  const { view, rows } = map;
  dx = Math.max(-view.left, Math.min(dx, columns - view.right));
  dy = Math.max(-view.top, Math.min(dy, rows.length - view.bottom));
  map.view = { left: view.left + dx, right: view.right + dx, top: view.top + dy, bottom: view.bottom + dy };
};

map.zoom = (factor, x = null, y = null) => {
  const { view, rows, picked } = map;
  const at = picked ? rows.indexOf(picked.row) : -1;
  const spot = (low, high, share, own) =>
    share !== null ? low + share * (high - low) : own >= low && own < high ? own + 0.5 : (low + high) / 2;
  const narrowed = (low, high, centre, size) => {
    const span = Math.min(size, Math.max(Math.min(4, size), (high - low) / factor));
    const start = Math.max(0, Math.min(size - span, centre - ((centre - low) / (high - low)) * span));
    return [start, start + span];
  };
  const [left, right] = narrowed(view.left, view.right, spot(view.left, view.right, x, picked ? picked.column : -1), columns);
  const [top, bottom] = narrowed(view.top, view.bottom, spot(view.top, view.bottom, y, at), rows.length);
  map.view = { left, right, top, bottom };
  map.draw();
};

map.step = (dx, dy) => {
  if (!map.rows.length) return;
  const now = map.picked ?? { row: map.rows[0], column: 0 };
  const at = Math.max(0, map.rows.indexOf(now.row));
  const limit = (value, size) => Math.max(0, Math.min(size - 1, value));
  map.pick({ row: map.rows[limit(at + dy, map.rows.length)], column: limit(now.column + dx, columns) });
};

map.keys = {
  ArrowLeft: () => map.step(-1, 0),
  ArrowRight: () => map.step(1, 0),
  ArrowUp: () => map.step(0, -1),
  ArrowDown: () => map.step(0, 1),
  PageUp: () => map.step(0, -10),
  PageDown: () => map.step(0, 10),
  Home: () => map.step(-columns, 0),
  End: () => map.step(columns, 0),
  "+": () => map.zoom(2),
  "=": () => map.zoom(2),
  "-": () => map.zoom(0.5),
  0: () => map.reset(),
};

map.start = () => {
  const { canvas } = map;
  let dragged = null;
  canvas.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : map.keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  canvas.addEventListener("wheel", (event) => {
    const cell = document.activeElement === canvas || event.ctrlKey ? map.under(event) : null;
    if (!cell) return;
    event.preventDefault();
    map.zoom(event.deltaY < 0 ? 1.25 : 0.8, cell.x, cell.y);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, y: event.clientY, moved: false, view: map.view };
  });
  window.addEventListener("pointerup", () => { dragged = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) {
      const cell = map.under(event);
      if (cell) map.say(cell);
      return;
    }
    const dx = event.clientX - dragged.x;
    const dy = event.clientY - dragged.y;
    if (!dragged.moved && Math.hypot(dx, dy) < 5) return;
    dragged.moved = true;
    map.view = dragged.view;
    map.shift((-dx / map.area.width) * (map.view.right - map.view.left), (-dy / map.area.height) * (map.view.bottom - map.view.top));
    map.draw();
  });
  canvas.addEventListener("pointerleave", () => { if (map.picked) map.say(map.picked); });
  canvas.addEventListener("click", (event) => {
    const cell = map.under(event);
    if (cell) map.pick(cell);
  });
  document.getElementById("zoom-in").onclick = () => map.zoom(2);
  document.getElementById("zoom-out").onclick = () => map.zoom(0.5);
  document.getElementById("zoom-reset").onclick = map.reset;
  const filters = document.getElementById("filters");
  filters.addEventListener("input", map.filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
  new ResizeObserver(map.draw).observe(canvas.parentElement);
};

map.legend = () => {
  const list = document.getElementById("legend");
  const { nan, inf, zero, unmeasured } = data.codes;
  const codes = [nan, inf, ...data.stops.map(([bits]) => Math.min(125, 4 * bits)), zero, unmeasured];
  list.replaceChildren(...codes.map((code) => {
    const swatch = element("span", { class: "swatch", style: `background:${css(palette.get(code))}` });
    return element("li", {}, swatch, describe(code).replace(/\.00/, ""));
  }));
};

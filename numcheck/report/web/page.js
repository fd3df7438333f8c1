// Language, theme, keys, and what is shown first.
const page = { themes: ["auto", "dark", "light"] };

// A page opened from a file may have no storage; it then forgets, and works.
page.remember = (key, value) => { try { localStorage.setItem(`numcheck-${key}`, value); } catch { /* no storage */ } };
page.recall = (key) => { try { return localStorage.getItem(`numcheck-${key}`); } catch { return null; } };

page.setLanguage = (lang) => {
  document.documentElement.lang = lang;
  for (const named of document.querySelectorAll("[data-phase]")) {
    named.textContent = speak(`phase_${named.dataset.phase}`);
  }
  page.redraw();
};

page.redraw = () => {
  if (map.canvas) {
    map.canvas.setAttribute("aria-label", speak("map_label"));
    map.legend();
    map.draw();
    if (map.picked) map.say(map.picked);
  }
  if (histogram.site !== null) histogram.show(histogram.site);
  curves.draw();
};

page.setTheme = (theme) => {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  page.theme = theme;
  page.redraw();
};

page.nextTheme = () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = page.theme === "auto" ? (dark ? "dark" : "light") : page.theme;
  page.setTheme(now === "dark" ? "light" : "dark");
  page.remember("theme", page.theme);
};

page.nextLanguage = () => {
  page.setLanguage(document.documentElement.lang === "zh" ? "en" : "zh");
  page.remember("language", document.documentElement.lang);
};

page.nextFinding = (by) => {
  const cards = [...document.querySelectorAll(".card")];
  if (!cards.length) return;
  const at = cards.indexOf(document.activeElement?.closest?.(".card"));
  const next = cards[at < 0 ? 0 : Math.max(0, Math.min(cards.length - 1, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
};

page.keys = {
  l: page.nextLanguage,
  d: page.nextTheme,
  j: () => page.nextFinding(1),
  k: () => page.nextFinding(-1),
  m: () => map.canvas?.focus(),
  "/": () => document.getElementById("filter-module")?.focus(),
};

page.start = () => {
  document.getElementById("language").onclick = page.nextLanguage;
  document.getElementById("theme").onclick = page.nextTheme;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    const act = typing || event.ctrlKey || event.metaKey || event.altKey ? null : page.keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  const origin = data.origins[0];
  for (const link of document.querySelectorAll(".link")) {
    link.addEventListener("click", () => {
      const card = link.closest(".card");
      const step = card ? data.origins[card.id.split("-")[1] - 1].step : data.last_step;
      map.pickSite(Number(link.dataset.site), step);
      document.getElementById("map")?.scrollIntoView({ block: "nearest" });
    });
  }
  page.theme = page.recall("theme") ?? "auto";
  page.setTheme(page.theme);
  if (map.canvas) {
    map.listeners.push(histogram.show);
    map.start();
    map.filter();
    if (origin && data.rows.includes(origin.site)) map.pickSite(origin.site, origin.step);
    else histogram.show(data.rows[0]);
  }
  page.setLanguage(page.recall("language") ?? document.documentElement.lang);
};

page.start();

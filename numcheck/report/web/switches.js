// Language, theme and keys, the same on every page; `page.redraw` is each page's own.
const page = {};

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

page.keys = { l: page.nextLanguage, d: page.nextTheme };

// Listens to buttons and keys, and shows the page as its reader last left it.
page.open = () => {
  document.getElementById("language").onclick = page.nextLanguage;
  document.getElementById("theme").onclick = page.nextTheme;
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    const act = typing || event.ctrlKey || event.metaKey || event.altKey ? null : page.keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  page.setTheme(page.recall("theme") ?? "auto");
  page.setLanguage(page.recall("language") ?? document.documentElement.lang);
};

// The report: what is drawn again, its keys, and what is shown first.
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

page.nextFinding = (by) => {
  const cards = [...document.querySelectorAll(".card")];
  if (!cards.length) return;
  const at = cards.indexOf(document.activeElement?.closest?.(".card"));
  const next = cards[at < 0 ? 0 : Math.max(0, Math.min(cards.length - 1, at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
};

Object.assign(page.keys, {
  j: () => page.nextFinding(1),
  k: () => page.nextFinding(-1),
  m: () => map.canvas?.focus(),
  "/": () => document.getElementById("filter-module")?.focus(),
});

page.start = () => {
  const origin = data.origins[0];
  for (const link of document.querySelectorAll(".link")) {
    link.addEventListener("click", () => {
      const card = link.closest(".card");
      const step = card ? data.origins[card.id.split("-")[1] - 1].step : data.last_step;
      map.pickSite(Number(link.dataset.site), step);
      document.getElementById("map")?.scrollIntoView({ block: "nearest" });
    });
  }
  if (map.canvas) {
    map.listeners.push(histogram.show);
    map.start();
    map.filter();
    if (origin && data.rows.includes(origin.site)) map.pickSite(origin.site, origin.step);
    else histogram.show(data.rows[0]);
  }
  page.open();
};

page.start();

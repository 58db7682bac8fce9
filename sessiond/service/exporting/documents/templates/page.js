"use strict";
// The page reads without this script: it adds search, links into folded branches, and the theme.
(() => {
  const byId = (id) => document.getElementById(id);
  const branches = [...document.querySelectorAll(".branch")];
  const entries = [...document.querySelectorAll(".entry")];

  // -- folding -------------------------------------------------------------------

  const above = (branch) => {
    const found = byId("branch-" + branch.dataset.above);
    return found === branch ? null : found;
  };

  // A branch shows only while the branches that it begins in are unfolded; those come before it.
  const arrange = () => {
    for (const branch of branches) {
      const parent = above(branch);
      const hidden = parent !== null && (parent.hidden || !parent.open);
      if (branch.hidden !== hidden) branch.hidden = hidden;
    }
  };
  const setFold = () => {
    const folded = branches.some((branch) => !branch.open);
    byId("fold").textContent = folded ? "Unfold branches" : "Fold branches";
    byId("fold").hidden = branches.length < 2;
  };
  for (const branch of branches) {
    branch.addEventListener("toggle", () => { arrange(); setFold(); });
  }
  byId("fold").addEventListener("click", () => {
    const open = branches.some((branch) => !branch.open);
    for (const branch of branches) {
      branch.open = open || branch.classList.contains("active");
    }
    arrange();
  });

  // -- links into folded branches ------------------------------------------------

  const reveal = (element) => {
    for (let at = element; at !== null; at = at.parentElement.closest("details")) {
      if (at.matches("details")) at.open = true;
      if (!at.matches(".branch")) continue;
      for (let outer = above(at); outer !== null; outer = above(outer)) outer.open = true;
    }
    arrange();
  };
  const show = (element) => {
    reveal(element);
    element.scrollIntoView({ block: "start" });
    // Entries above may get their real size only now.
    requestAnimationFrame(() => element.scrollIntoView({ block: "start" }));
  };
  const follow = () => {
    const target = byId(location.hash.slice(1));
    if (target !== null) show(target);
  };
  addEventListener("hashchange", follow);
  byId("outline").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link !== null && link.hash === location.hash) follow();
    if (link !== null) showOutline(false);
  });

  // -- search --------------------------------------------------------------------

  const query = byId("query");
  let texts = null;
  let hits = [];
  let at = -1;

  const search = () => {
    const words = query.value.trim().toLowerCase();
    texts ??= entries.map((entry) => entry.textContent.toLowerCase());
    hits = words === "" ? [] : entries.filter((_, index) => texts[index].includes(words));
    at = -1;
    mark(null);
    byId("found").textContent = words === "" ? "" : String(hits.length);
  };
  const step = (by) => {
    if (hits.length === 0) return;
    at = at < 0 ? (by > 0 ? 0 : hits.length - 1) : (at + by + hits.length) % hits.length;
    byId("found").textContent = `${at + 1} of ${hits.length}`;
    mark(hits[at]);
  };
  let current = null;
  const mark = (entry) => {
    if (current !== null) current.classList.remove("current");
    current = entry;
    if (window.CSS && CSS.highlights) CSS.highlights.delete("found");
    if (entry === null) return;
    entry.classList.add("current");
    const ranges = matches(entry, query.value.trim().toLowerCase());
    for (const range of ranges) reveal(range.startContainer.parentElement.closest("details, .entry"));
    if (window.Highlight && CSS.highlights) CSS.highlights.set("found", new Highlight(...ranges));
    show(entry);
  };
  const matches = (entry, words) => {
    const found = [];
    const walker = document.createTreeWalker(entry, NodeFilter.SHOW_TEXT);
    while (walker.nextNode() && found.length < 500) {
      const text = walker.currentNode.data.toLowerCase();
      for (let from = text.indexOf(words); from >= 0; from = text.indexOf(words, from + words.length)) {
        if (from + words.length > walker.currentNode.data.length) break;
        const range = document.createRange();
        range.setStart(walker.currentNode, from);
        range.setEnd(walker.currentNode, from + words.length);
        found.push(range);
      }
    }
    return found;
  };
  let waiting = 0;
  query.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(waiting);
    if (at < 0) search();
    step(1);
  });
  byId("previous").addEventListener("click", () => step(-1));
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); step(-1); }
    if (event.key === "Escape") { query.value = ""; search(); query.blur(); }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== query) { event.preventDefault(); query.focus(); }
  });

  // -- outline and theme ---------------------------------------------------------

  const showOutline = (shown) => {
    byId("outline").classList.toggle("shown", shown);
    byId("outline-button").setAttribute("aria-expanded", String(shown));
  };
  byId("outline-button").addEventListener("click", () => {
    showOutline(!byId("outline").classList.contains("shown"));
  });

  const themes = ["system", "dark", "light"];
  const setTheme = (theme) => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    byId("theme").textContent = "Theme: " + theme;
  };
  let theme = "system";
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    setTheme(theme);
  });

  arrange();
  setFold();
  if (location.hash !== "") follow();
})();

"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  root.classList.add("scripted");

  // Colours: as the system says, light, dark. Pages opened from a file may not be allowed to remember.
  const themes = ["system", "light", "dark"];
  const said = { system: "as the system says", light: "light", dark: "dark" };
  const remembered = () => { try { return localStorage.getItem("formatkit-theme"); } catch { return null; } };
  const setTheme = (theme) => {
    if (theme === "system") root.removeAttribute("data-theme"); else root.dataset.theme = theme;
    byId("theme").setAttribute("aria-label", `Colours: ${said[theme]}`);
    byId("theme").title = `Colours: ${said[theme]}`;
    try { localStorage.setItem("formatkit-theme", theme); } catch { /* the next page starts anew */ }
  };
  let theme = themes.includes(remembered()) ? remembered() : "system";
  setTheme(theme);
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    setTheme(theme);
  });

  // Search and filters.
  const search = byId("search");
  const rows = all("tr[data-words]");
  const chosen = (name) => all(`input[name="${name}"]:checked`).map((input) => input.value);
  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const layers = chosen("layer");
    const outcomes = chosen("outcome");
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => row.dataset.words.includes(word))
        && (!layers.length || layers.includes(row.dataset.layer))
        && (!outcomes.length || outcomes.some((outcome) => row.dataset.outcomes.includes(outcome)));
      row.hidden = !fits;
      shown += fits;
    }
    for (const part of all("#checks tbody, #checks .layer")) part.hidden = !part.querySelector("tr[data-words]:not([hidden])");
    byId("shown").textContent = shown === rows.length ? `${shown} checks` : `${shown} of ${rows.length} checks`;
    byId("none").hidden = shown > 0;
  };
  const refine = () => {
    apply();
    // What is left begins below the tools, however far down the reader was.
    if (byId("checks").getBoundingClientRect().top < 0) byId("checks").scrollIntoView({ behavior: "instant" });
  };
  search.addEventListener("input", refine);
  search.form.addEventListener("change", refine);
  search.form.addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", () => { search.form.reset(); apply(); search.focus(); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input[type=search], textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape") {
      hide();
      if (typing) { search.value = ""; apply(); search.blur(); }
    }
  });
  apply();

  // The heads of tables stay below the tools.
  new ResizeObserver(() => root.style.setProperty("--tools-height", `${search.form.offsetHeight}px`)).observe(search.form);

  // The text of a clause, at the clause's number.
  const tip = byId("tip");
  const hide = () => { tip.hidden = true; all("[aria-describedby=tip]").forEach((link) => link.removeAttribute("aria-describedby")); };
  const show = (link) => {
    hide();
    const term = byId(link.hash.slice(1));
    const number = document.createElement("b");
    number.textContent = term.textContent;
    tip.replaceChildren(number, ...[...term.nextElementSibling.childNodes].map((node) => node.cloneNode(true)));
    tip.hidden = false;
    link.setAttribute("aria-describedby", "tip");
    const place = link.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const above = place.top - size.height - 8;
    tip.style.top = `${above > 8 ? above : place.bottom + 8}px`;
    tip.style.left = `${Math.max(16, Math.min(place.left, innerWidth - size.width - 16))}px`;
  };
  for (const link of all("a.clause")) {
    link.addEventListener("mouseenter", () => show(link));
    link.addEventListener("focus", () => show(link));
    link.addEventListener("mouseleave", hide);
    link.addEventListener("blur", hide);
  }
  addEventListener("scroll", hide, { passive: true });

  // A link to a failure opens it.
  const open = () => {
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) { target.open = true; target.querySelector("summary").focus({ preventScroll: true }); target.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  open();

  // Copy a command; where the clipboard is closed to pages, it is selected instead.
  for (const button of all("button.copy")) {
    button.addEventListener("click", async () => {
      const command = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(command);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();

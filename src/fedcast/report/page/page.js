"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const REACH = 26; // largest distance in pixels from the pointer to the mark that it selects
  const tip = document.getElementById("tip");
  let lit = null; // the plot with a highlighted mark

  // Texts are set as text, never as HTML.
  function showTip(text, x, y) {
    const [title, ...rest] = text.split("\n");
    const strong = document.createElement("strong");
    strong.textContent = title;
    tip.replaceChildren(strong, rest.join("\n"));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x - width / 2), innerWidth - width - 8);
    const above = y - height - 14;
    tip.style.transform = `translate(${left}px, ${above > 8 ? above : Math.min(y + 18, innerHeight - height - 8)}px)`;
  }

  function clear() {
    tip.hidden = true;
    tip.replaceChildren();
    if (!lit) return;
    lit.classList.remove("dim");
    lit.querySelectorAll(".lit, .near").forEach((mark) => mark.classList.remove("lit", "near"));
    lit.querySelector(".cross")?.remove();
    lit = null;
  }

  // Marks: elements with a tip.
  const isShown = (mark) => !mark.closest("[data-series][hidden]");
  // Links are pointed at themselves, not near them.
  const marksOf = (plot) => [...plot.querySelectorAll(".mark:not(line)")].filter(isShown);

  function middleOf(mark) {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  }

  function markAt(plot, event) {
    const under = event.target.closest?.(".mark");
    if (under) return under;
    const mode = plot.dataset.nearest;
    if (mode === undefined) return null;
    let best = null, nearest = REACH;
    for (const mark of marksOf(plot)) {
      const [x, y] = middleOf(mark);
      const distance = mode === "x" ? Math.abs(x - event.clientX) : Math.hypot(x - event.clientX, y - event.clientY);
      if (distance < nearest) [best, nearest] = [mark, distance];
    }
    return best;
  }

  function light(plot, mark, at) {
    if (lit !== plot || !mark.classList.contains("lit")) {
      clear();
      lit = plot;
      mark.classList.add("lit");
      if (mark.dataset.cluster !== undefined || mark.classList.contains("alone")) {
        plot.classList.add("dim");
        plot.querySelectorAll(`[data-cluster="${mark.dataset.cluster}"]`).forEach((one) => one.classList.add("near"));
      }
    }
    showTip(mark.dataset.tip, ...(at ?? middleOf(mark)));
  }

  // Curves: show the values of all curves at the pointer.
  const dataOf = new Map();
  function curvesOf(plot) {
    if (!dataOf.has(plot)) dataOf.set(plot, JSON.parse(plot.nextElementSibling.textContent));
    return dataOf.get(plot);
  }
  const shownSeries = (plot) =>
    curvesOf(plot).series.filter((one) => !plot.querySelector(`[data-series="${one.number}"]`).hasAttribute("hidden"));
  const placed = ([low, high, start, end], value) => start + ((value - low) / (high - low)) * (end - start);
  const percent = (value) => `${(100 * value).toFixed(1)}\u00a0%`;
  const plain = (value) => value.toPrecision(3);

  function nearestTo(values, wanted) {
    let low = 0, high = values.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (values[middle] < wanted) low = middle; else high = middle;
    }
    return Math.abs(values[low] - wanted) <= Math.abs(values[high] - wanted) ? low : high;
  }

  function make(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  function cross(plot, wanted, clientY) {
    clear();
    const data = curvesOf(plot);
    const series = shownSeries(plot);
    if (!series.length) return;
    lit = plot;
    const show = data.share ? percent : plain;
    const group = make("g", { class: "cross" });
    const lines = series.map((one) => {
      const place = nearestTo(one.x, wanted);
      const [x, y] = [one.x[place], one.y[place]];
      const look = plot.querySelector(`[data-series="${one.number}"]`).getAttribute("class");
      group.append(make("circle", { class: look, cx: placed(data.x, x), cy: placed(data.y, y), r: 3.6 }));
      const band = one.low ? ` (${show(one.low[place])} to ${show(one.high[place])})` : "";
      return `${one.name} ${show(y)}${band}`;
    });
    const exact = data.axis === "round" ? Math.round(wanted) : wanted;
    const at = placed(data.x, exact);
    group.prepend(make("line", { x1: at, x2: at, y1: data.y[2], y2: data.y[3] }));
    plot.append(group);
    const title = data.axis === "round" ? `Round ${exact}` : `${exact.toFixed(1)}\u00a0s`;
    const box = plot.getBoundingClientRect();
    const scale = box.width / plot.viewBox.baseVal.width;
    showTip([title, ...lines].join("\n"), box.left + at * scale, clientY ?? box.top + data.y[3] * scale + 40);
  }

  function valueAt(plot, clientX) {
    const { x } = curvesOf(plot);
    const box = plot.getBoundingClientRect();
    const at = ((clientX - box.left) / box.width) * plot.viewBox.baseVal.width;
    const value = x[0] + ((at - x[2]) / (x[3] - x[2])) * (x[1] - x[0]);
    return Math.min(Math.max(value, x[0]), x[1]);
  }

  function point(event) {
    const plot = event.target.closest?.("svg.plot");
    if (!plot) return clear();
    if (plot.dataset.curves !== undefined) return cross(plot, valueAt(plot, event.clientX), event.clientY);
    const mark = markAt(plot, event);
    if (mark && isShown(mark)) light(plot, mark, [event.clientX, event.clientY]); else clear();
  }
  addEventListener("pointermove", (event) => event.pointerType !== "touch" && point(event));
  addEventListener("pointerdown", point);
  addEventListener("scroll", () => lit && !lit.matches(":focus-visible") && clear(), { passive: true });

  // Keyboard: a plot is one tab stop; arrow keys go from mark to mark, or along the curves.
  function step(plot, by) {
    if (plot.dataset.curves !== undefined) {
      const { x, axis } = curvesOf(plot);
      const stride = axis === "round" ? 1 : (x[1] - x[0]) / 50;
      const value = Math.min(Math.max((plot.at ?? x[0] - by * stride) + by * stride, x[0]), x[1]);
      plot.at = value;
      return cross(plot, value);
    }
    const marks = marksOf(plot);
    if (!marks.length) return;
    plot.at = ((plot.at ?? (by > 0 ? -1 : 0)) + by + marks.length) % marks.length;
    light(plot, marks[plot.at]);
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") return clear();
    const plot = event.target.closest?.("svg.plot");
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!plot || !by) return;
    event.preventDefault();
    step(plot, by);
  });
  addEventListener("focusout", (event) => event.target.matches?.("svg.plot") && clear());

  // Legends and selectors.
  document.querySelectorAll("[data-toggles]").forEach((key) => key.addEventListener("click", () => {
    const shown = key.getAttribute("aria-pressed") !== "true";
    key.setAttribute("aria-pressed", shown);
    const section = key.closest("figure, section");
    section.querySelectorAll(`svg [data-series="${key.dataset.toggles}"]`).forEach((one) => one.toggleAttribute("hidden", !shown));
    clear();
  }));
  document.querySelectorAll("input[name=axis]").forEach((choice) => choice.addEventListener("change", () => {
    clear();
    document.querySelectorAll("[data-axis]").forEach((one) => { one.hidden = one.dataset.axis !== choice.value; });
  }));
  document.getElementById("run")?.addEventListener("change", (event) => {
    clear();
    document.querySelectorAll("[data-run]").forEach((one) => { one.hidden = one.dataset.run !== event.target.value; });
  });

  // Tables that are sorted by a click on a title, and filtered by a text and a role.
  document.querySelectorAll("table[data-sortable]").forEach((table) => {
    const body = table.tBodies[0], rows = [...body.rows], titles = [...table.tHead.rows[0].cells];
    const filters = table.closest("section").querySelector(".filters");
    const keyOf = (row, place) => row.cells[place].dataset.value ?? row.cells[place].textContent;
    const compare = new Intl.Collator("en", { numeric: true }).compare;
    titles.forEach((title, place) => title.querySelector("button").addEventListener("click", () => {
      const down = title.getAttribute("aria-sort") === "ascending";
      titles.forEach((one) => one.removeAttribute("aria-sort"));
      title.setAttribute("aria-sort", down ? "descending" : "ascending");
      const known = rows.filter((row) => keyOf(row, place) !== "");
      const isNumber = known.every((row) => !Number.isNaN(Number(keyOf(row, place))));
      known.sort((one, other) => {
        const [a, b] = [keyOf(one, place), keyOf(other, place)];
        return (isNumber ? a - b : compare(a, b)) * (down ? -1 : 1);
      });
      // Rows without a value stay at the end.
      body.append(...known, ...rows.filter((row) => keyOf(row, place) === ""));
    }));
    const find = filters.querySelector("[data-find]"), role = filters.querySelector("[data-role]");
    const show = () => {
      const wanted = find.value.trim().toLowerCase();
      let count = 0;
      for (const row of rows) {
        const named = [row.cells[0], row.cells[2]].some((cell) => cell.textContent.toLowerCase().includes(wanted));
        row.hidden = !(named && (!role.value || row.dataset.roles.includes(role.value)));
        count += !row.hidden;
      }
      filters.querySelector("[data-count]").textContent =
        count === rows.length ? `${count.toLocaleString("en")} users` : `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} users`;
    };
    find.addEventListener("input", show);
    role.addEventListener("change", show);
  });

  // Light or dark mode: as in the system settings, unless the button was used. Some browsers store nothing for local files.
  const root = document.documentElement;
  const kept = {
    read() { try { return localStorage.getItem("fedcast-theme"); } catch { return null; } },
    write(theme) { try { localStorage.setItem("fedcast-theme", theme); } catch { /* shown, not kept */ } },
  };
  if (["light", "dark"].includes(kept.read())) root.dataset.theme = kept.read();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    kept.write(root.dataset.theme);
  });
})();

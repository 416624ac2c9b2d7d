"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);

  // -- tables: sort by a column, filter by text ------------------------------------------------
  const keyOf = (cell) => {
    const raw = cell.dataset.sort ?? cell.textContent.trim();
    const value = Number(raw);
    return raw !== "" && !Number.isNaN(value) ? value : raw.toLowerCase();
  };
  const compare = (a, b) =>
    typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;

  const sortBy = (table, column, heading) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    all("th[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
    rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    table.tBodies[0].append(...rows.map((pair) => pair[1]));
  };

  all("table.data").forEach((table) => {
    all("thead th", table).forEach((heading, column) => {
      const button = make("button", { type: "button", className: "sort" });
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(table, column, heading));
      heading.append(button);
    });
  });

  const rowsMatching = (table, text) => {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => content.includes(word));
      shown += !row.hidden;
    }
    return shown;
  };

  all("table[data-filter]").forEach((table) => {
    const tools = make("p", { className: "tools" });
    const label = make("label", { textContent: "Show only rows with: " });
    const field = make("input", { type: "search" });
    const count = make("span", { className: "count" });
    count.setAttribute("role", "status");
    field.addEventListener("input", () => {
      const shown = rowsMatching(table, field.value);
      count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
    });
    label.append(field);
    tools.append(label, count);
    table.closest(".scroll").before(tools);
  });

  // -- pictures: a legend entry brings out its line --------------------------------------------
  all(".legend[data-picks]").forEach((legend) => {
    const plot = legend.closest("figure").querySelector("svg.plot");
    legend.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      const pressed = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!pressed));
      const picked = all("button[aria-pressed=true]", legend).map((b) => b.dataset.series);
      plot.classList.toggle("picking", picked.length > 0);
      all("[data-series]", plot).forEach((line) =>
        line.classList.toggle("picked", picked.includes(line.dataset.series)));
    });
  });

  // -- copy a command ---------------------------------------------------------------------------
  const select = (element) => getSelection().selectAllChildren(element);
  const copy = async (button) => {
    const source = button.previousElementSibling;
    select(source);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Selected: press Ctrl+C";
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.copy");
    if (button) copy(button);
  });
  all("button.copy").forEach((button) => { button.hidden = false; });

  // -- heat map: a cell opens the card of its worst case ----------------------------------------
  const store = document.getElementById("worst-cases");
  if (store) {
    const unpack = async (base64) => {
      const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return JSON.parse(await new Response(plain).text());
    };
    const unpacked = unpack(store.textContent.trim());
    const dialog = document.getElementById("card");
    const show = ({ texts, kernels, cards, names }, number) => {
      const [kernel, quoted, ...values] = cards[number];
      const list = make("dl", { className: "card" });
      values.forEach((value, at) => {
        if (value === "") return;
        const text = typeof value === "number" ? texts[value] : value;
        list.append(make("dt", { textContent: names[at] }), make("dd", { textContent: text }));
      });
      const line = make("dd");
      const code = make("code", { textContent: kernels[kernel][1] + (quoted || values[1]) });
      line.append(code, " ", make("button", { type: "button", className: "copy", textContent: "Copy" }));
      list.append(make("dt", { textContent: "Reproduce" }), line);
      dialog.querySelector("h3").textContent = kernels[kernel][0];
      dialog.querySelector(".card").replaceWith(list);
      if (!dialog.open) dialog.showModal();
    };
    all("table.heat").forEach((table) => table.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-card]");
      if (button) unpacked.then((data) => show(data, Number(button.dataset.card)));
    }));
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  }

  addEventListener("beforeprint", () => all("details").forEach((d) => { d.open = true; }));
})();

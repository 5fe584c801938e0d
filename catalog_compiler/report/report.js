"use strict";
(() => {
  const body = document.querySelector("#table tbody");
  const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const input = document.getElementById("q");
  const shown = document.getElementById("shown");
  let timer = 0;
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text } of rows) {
      const fits = words.every((word) => text.includes(word));
      row.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = count.toLocaleString("en") + (count === 1 ? " tool" : " tools");
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(filter, 80);
  });
  document.querySelectorAll("#table th[data-sort]").forEach((head) => {
    let direction = head.dataset.sort === "number" ? -1 : 1;
    head.addEventListener("click", () => {
      const cell = (entry) => entry.row.cells[head.cellIndex].textContent;
      const number = (entry) => Number(cell(entry).replaceAll(",", ""));
      const order = head.dataset.sort === "number"
        ? (a, b) => number(a) - number(b)
        : (a, b) => cell(a).localeCompare(cell(b), "en");
      body.append(...[...rows].sort((a, b) => direction * order(a, b)).map((entry) => entry.row));
      direction = -direction;
    });
  });
})();

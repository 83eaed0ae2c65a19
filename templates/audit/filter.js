"use strict";
// Shows only the nodes that are asked for. Without script every node is shown.
const bar = document.querySelector(".filter");
const field = bar.querySelector("input");
const buttons = [...bar.querySelectorAll("button")];
const count = document.querySelector("#shown");
let state = "all";

function show() {
  const word = field.value.trim().toLowerCase();
  let shown = 0;
  for (const element of document.querySelectorAll("[data-node]")) {
    const fits = (state === "all" || element.dataset.state === state) && element.dataset.node.includes(word);
    element.hidden = !fits;
    if (fits && element.matches("details")) shown += 1;
  }
  count.textContent = `${shown} shown`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    state = button.value;
    for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
    show();
  });
}
field.addEventListener("input", show);
for (const link of document.querySelectorAll(".tiles a")) {
  link.addEventListener("click", () => {
    document.querySelector(link.getAttribute("href")).open = true;
  });
}
bar.hidden = false;
show();

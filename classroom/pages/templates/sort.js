// Sorts a table by the column whose heading is pressed, and reverses the order if pressed again.
for (const button of document.querySelectorAll(".heat thead button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const isName = head.cellIndex === 0;
    const [first, second] = isName ? ["ascending", "descending"] : ["descending", "ascending"];
    const order = head.getAttribute("aria-sort") === first ? second : first;
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.children[head.cellIndex].dataset.value;
    const compare = (a, b) => (isName ? value(a).localeCompare(value(b)) : value(a) - value(b));
    body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
  });
}

// Filters of the ledger. Without this script the page shows all rows.
for (const ledger of document.querySelectorAll(".ledger")) {
  const form = ledger.querySelector("form.filters");
  if (!form) continue;
  const rows = [...ledger.querySelectorAll(".rows tbody tr")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const told = ledger.querySelector(".shown");

  const fits = (row, name, value) => !value || row.dataset[name].split("|").includes(value);
  const filter = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = ["kind", "evidence", "documents", "part"].map((name) => [
      name,
      form.elements[name].value,
    ]);
    let shown = 0;
    rows.forEach((row, i) => {
      const isIn =
        words.every((word) => texts[i].includes(word)) &&
        chosen.every(([name, value]) => fits(row, name, value));
      row.hidden = !isIn;
      shown += isIn;
    });
    told.textContent = `${shown} of ${rows.length} statements`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
}

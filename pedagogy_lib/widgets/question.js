// A question with a field for a number. The kernel reads what was typed, and replies.

let made = 0; // questions in this page: their labels need names of their own

function render({ model, el }) {
  const id = `course-question-${made++}`;
  const part = (tag, className, text = "") => {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  };
  const root = part("div", "course course-question");
  root.dataset.lmSuppressShortcuts = "true"; // keys are the field's, not the notebook's
  const label = part("label", "");
  const word = document.createElement("b");
  word.textContent = "Predict ";
  label.append(word, model.get("question"));
  label.htmlFor = id;

  const row = part("div", "course-answer");
  const field = document.createElement("input");
  field.type = "text";
  field.id = id;
  field.placeholder = "your number";
  field.autocomplete = "off";
  const unit = part("span", "", model.get("unit"));
  unit.id = `${id}-unit`;
  const reply = part("span", "course-reply");
  reply.id = `${id}-reply`;
  reply.setAttribute("role", "status");
  field.setAttribute("aria-describedby", `${unit.id} ${reply.id}`);
  row.append(field, unit, reply);
  root.append(label, row);
  el.append(root);

  const show = () => {
    const isGood = model.get("is_good");
    field.value = model.get("text");
    field.setAttribute("aria-invalid", String(!isGood));
    const sign = isGood ? (field.value ? "✓ " : "") : "✗ "; // nothing typed is nothing noted
    reply.textContent = model.get("reply") && sign + model.get("reply");
    reply.className = `course-reply ${isGood ? "course-good" : "course-bad"}`;
  };
  const take = () => {
    if (field.value === model.get("text")) return;
    model.set("text", field.value);
    model.save_changes();
  };
  field.addEventListener("change", take);
  // In a notebook, Enter does not count as the end of a change.
  field.addEventListener("keydown", (event) => event.key === "Enter" && take());
  model.on("change:text change:reply change:is_good", show);
  show();
  return () => model.off("change:text change:reply change:is_good", show);
}

export default { render };

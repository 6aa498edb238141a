// A question with a field for a number. The kernel reads what was typed, and replies.

const PATIENCE_MILLISECONDS = 500; // then a cell is running, and the kernel replies after it
const WAITING = "noted when the cell that is running has ended";
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

  let waiting = null;
  const say = (text, isGood) => {
    reply.textContent = text;
    reply.className = `course-reply ${isGood ? "course-good" : "course-bad"}`;
  };
  const show = () => {
    clearTimeout(waiting);
    const isGood = model.get("is_good"), { text } = model.get("typed");
    if (document.activeElement !== field) field.value = text; // else more may have been typed
    field.setAttribute("aria-invalid", String(!isGood));
    const sign = isGood ? (text ? "✓ " : "") : "✗ "; // nothing typed is nothing noted
    say(model.get("reply") && sign + model.get("reply"), isGood);
  };
  const take = () => {
    if (field.value === model.get("typed").text) return;
    model.set("typed", { text: field.value, at: Date.now() / 1000 });
    model.save_changes();
    clearTimeout(waiting);
    waiting = setTimeout(() => say(WAITING, true), PATIENCE_MILLISECONDS);
  };
  field.addEventListener("change", take);
  // In a notebook, Enter does not count as the end of a change.
  field.addEventListener("keydown", (event) => event.key === "Enter" && take());
  model.on("change:answered", show);
  show();
  return () => {
    clearTimeout(waiting);
    model.off("change:answered", show);
  };
}

export default { render };

// The controls of a picture. The kernel draws; what it has drawn is kept here, too.

const PLAY_MILLISECONDS = 900; // for each picture of a film
const PLAY = "play", PAUSE = "pause";
let made = 0; // explorers in this page: their labels need names of their own

function node(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function keyOf(chosen) {
  return JSON.stringify(Object.keys(chosen).sort().map((name) => [name, chosen[name]]));
}

function controlOf(control, id, choose) {
  const isSlider = control.is_slider;
  const input = isSlider
    ? node("input", { type: "range", min: 0, max: control.texts.length - 1, step: 1 })
    : node("select", {}, ...control.texts.map((text, i) => node("option", { value: i }, text)));
  input.id = id;
  const value = node("output", { htmlFor: id });
  const put = (index) => {
    input.value = index;
    if (isSlider) {
      value.textContent = control.texts[index];
      input.setAttribute("aria-valuetext", control.texts[index]);
    }
  };
  const take = (index) => {
    put(index);
    choose(control.name, index);
  };
  input.addEventListener("input", () => take(Number(input.value)));
  // A notebook leaves these keys no effect of their own.
  const last = control.texts.length - 1;
  const moved = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -last, End: last };
  input.addEventListener("keydown", (event) => {
    if (!isSlider || !(event.key in moved)) return;
    event.preventDefault();
    event.stopPropagation();
    take(Math.max(0, Math.min(last, Number(input.value) + moved[event.key])));
  });
  const label = node("label", { htmlFor: id }, control.label);
  const box = node("div", { className: "course-control" }, label, input, value);
  return { box, input, put };
}

function filmButtons(move, play) {
  const button = (text, work) => node("button", { type: "button", onclick: work }, text);
  const playing = button(PLAY, play);
  const keys = node("span", { className: "course-keys" }, "or ← → on the slider");
  const back = button("◀ back", () => move(-1)), next = button("next ▶", () => move(1));
  const bar = node("div", { className: "course-film" }, back, next, playing, keys);
  // Disabled, a button would lose the focus: whoever plays by keyboard would be thrown out.
  const see = (isFirst, isLast) => {
    back.setAttribute("aria-disabled", isFirst);
    next.setAttribute("aria-disabled", isLast);
  };
  return { bar, playing, see };
}

// A page with many pictures may load them lazily.
function render({ model, el, loading = "eager" }) {
  const id = `course-explorer-${made++}`;
  const kept = new Map();
  const controls = {};
  let wanted = { ...model.get("chosen") };
  let timer = null;

  const grid = node("div", { className: "course-controls" });
  const message = node("p", { className: "course-message" });
  message.setAttribute("role", "status");
  const image = node("img", { loading });
  const frame = node("div", { className: "course-picture", tabIndex: 0 }, image); // it may scroll
  const root = node("div", { className: "course" }, grid);
  root.setAttribute("role", "group");
  root.dataset.lmSuppressShortcuts = "true"; // else arrow keys fold the notebook's headings
  root.setAttribute("aria-label", "Controls and the picture that they change");

  // For the highest picture, at the scale of this one: what stands below is not to jump.
  const makeRoom = () => {
    const scale = image.clientWidth / (parseFloat(image.style.maxWidth) || image.clientWidth);
    if (scale > 0) frame.style.minHeight = `${Math.ceil(model.get("height") * scale)}px`;
  };
  const show = (view) => {
    if (keyOf(view.chosen) !== keyOf(wanted)) return;
    image.src = view.src;
    image.alt = view.alt;
    image.style.maxWidth = `${view.width}px`;
    image.style.minWidth = `${Math.min(view.width, 640)}px`;
    makeRoom();
    message.textContent = view.message;
    for (const [name, { input, box }] of Object.entries(controls)) {
      input.disabled = view.without_effect.includes(name);
      box.title = input.disabled ? "changes nothing here" : "";
    }
    if (buttons) buttons.see(wanted[film.name] === 0, wanted[film.name] === last);
    root.removeAttribute("aria-busy");
    askForNext();
  };
  // What is measured, or depends on what was shown before, is not the same the next time.
  const keep = (view) => view.run || kept.set(keyOf(view.chosen), view);
  const want = (chosen) => {
    wanted = { ...chosen };
    for (const [name, { put }] of Object.entries(controls)) put(wanted[name]);
    const known = kept.get(keyOf(wanted));
    if (known) show(known);
    else root.setAttribute("aria-busy", "true");
    model.set("chosen", { ...wanted });
    model.save_changes();
  };
  const choose = (name, index) => {
    stop();
    want({ ...wanted, [name]: index });
  };

  // Of a film, the next picture is drawn while this one is looked at.
  const [film] = model.get("controls");
  const last = film.texts.length - 1;
  const askForNext = () => {
    if (!model.get("is_film") || wanted[film.name] >= last) return;
    const soon = { [film.name]: wanted[film.name] + 1 };
    if (!kept.has(keyOf(soon))) model.send({ soon });
  };
  const move = (by) => {
    stop();
    step(by);
  };
  const step = (by) => {
    want({ [film.name]: Math.max(0, Math.min(last, wanted[film.name] + by)) });
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    if (buttons) buttons.playing.textContent = PLAY;
  };
  const play = () => {
    if (timer) return stop();
    if (wanted[film.name] >= last) step(-Infinity);
    buttons.playing.textContent = PAUSE;
    timer = setInterval(() => {
      if (root.hasAttribute("aria-busy")) return; // it is still being drawn
      if (wanted[film.name] >= last) stop();
      else step(1);
    }, PLAY_MILLISECONDS);
  };
  const buttons = model.get("is_film") ? filmButtons(move, play) : null;
  for (const control of model.get("controls")) {
    controls[control.name] = controlOf(control, `${id}-${control.name}`, choose);
    controls[control.name].put(wanted[control.name]);
    grid.append(controls[control.name].box);
  }
  if (buttons) root.append(buttons.bar);
  if (model.get("action")) {
    const button = node("button", { type: "button", className: "course-run" }, model.get("action"));
    button.onclick = () => {
      button.disabled = true;
      root.setAttribute("aria-busy", "true");
      message.textContent = "measuring …";
      model.once("change:view", () => (button.disabled = false));
      model.send({ run: true });
    };
    grid.append(button);
  }
  root.append(message, frame);

  const isNew = () => {
    keep(model.get("view"));
    show(model.get("view"));
  };
  const hear = (said) => said.soon && keep(said.soon);
  const isMoved = () => {
    if (keyOf(model.get("chosen")) !== keyOf(wanted)) want(model.get("chosen"));
  };
  model.on("change:view", isNew);
  model.on("change:chosen", isMoved);
  model.on("change:height", makeRoom);
  model.on("msg:custom", hear);
  isNew();
  el.append(root);
  const watched = new ResizeObserver(makeRoom);
  watched.observe(image);
  return () => {
    stop();
    watched.disconnect();
    model.off("change:view", isNew);
    model.off("change:chosen", isMoved);
    model.off("change:height", makeRoom);
    model.off("msg:custom", hear);
  };
}

export default { render };

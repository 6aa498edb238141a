// The controls of a picture in a page without a kernel: all views were recorded (view_files.py).
// They are mounted in every <div class="course-recorded">, which has the record in a
// <script type="application/json">, or else its address in data-views. Pictures lie beside that
// address if there is one, else beside the page.

import explorer from "./explorer.js";

const NEAR = "300px"; // of the screen: from there on, neighbours are loaded

// In the same order, whatever the order of the names is.
function nameOf(chosen) {
  return JSON.stringify(Object.entries(chosen).sort());
}

// Answers as the kernel's side of an explorer does.
class RecordedModel {
  constructor(record, base) {
    const { views, ...state } = record;
    this.views = new Map();
    for (const view of Object.values(views)) {
      this.views.set(nameOf(view.chosen), { ...view, src: new URL(view.src, base).href });
    }
    this.start = record.chosen;
    this.state = { ...state, view: this.views.get(nameOf(this.start)) };
    this.settled = this.start; // the last choice that was recorded
    this.listeners = {};
    this.loads = new Map();
    this.back = ""; // what the next view has to tell beside
  }

  get(name) {
    return this.state[name];
  }

  set(name, value) {
    this.state[name] = value;
  }

  on(event, listener) {
    (this.listeners[event] ??= new Set()).add(listener);
  }

  off(event, listener) {
    this.listeners[event]?.delete(listener);
  }

  once(event, listener) {
    const first = (...said) => {
      this.off(event, first);
      listener(...said);
    };
    this.on(event, first);
  }

  say(event, ...said) {
    for (const listener of [...(this.listeners[event] ?? [])]) listener(...said);
  }

  send() {} // a film's next picture is a neighbour: it is loaded without being asked for

  // The choice has changed.
  save_changes() {
    const chosen = this.state.chosen;
    const view = this.views.get(nameOf(chosen));
    if (!view) return this.backToStart(chosen);
    this.settled = chosen;
    this.load(view).then(() => {
      if (nameOf(this.state.chosen) === nameOf(chosen)) this.show(view);
    });
  }

  // Controls were recorded alone: the one that was moved stays where it is.
  backToStart(chosen) {
    const all = Object.keys(chosen);
    const moved = all.find((name) => chosen[name] !== this.settled[name]);
    const alone = { ...this.start, [moved]: chosen[moved] };
    const others = all.filter((name) => chosen[name] !== alone[name]);
    const labels = this.state.controls.filter(({ name }) => others.includes(name));
    const said = labels.map(({ name, label, texts }) => `${label} (${texts[alone[name]]})`);
    this.back = `This page shows one control moved at a time. Set back: ${said.join(", ")}`;
    this.state.chosen = alone;
    this.say("change:chosen");
  }

  show(view) {
    const { view: before } = this.state;
    const { src, alt, width, height } = before;
    // Of values that do not go together there is no picture: the one before stays.
    const still = view.message ? { ...view, src, alt, width, height } : view;
    const message = [view.message, this.back].filter(Boolean).join(". ");
    this.state.view = message ? { ...still, message, run: true } : still;
    this.back = "";
    this.say("change:view");
    this.loadNeighbours();
  }

  loadNeighbours() {
    for (const { name, texts } of this.state.controls) {
      for (const next of [this.settled[name] - 1, this.settled[name] + 1]) {
        if (!(next in texts)) continue;
        const choices = [this.settled, this.start].map((of) => nameOf({ ...of, [name]: next }));
        this.load(this.views.get(choices.find((choice) => this.views.has(choice))));
      }
    }
  }

  // Resolves when the picture can be shown at once; a missing one has its description.
  load(view) {
    if (view.message) return Promise.resolve();
    if (!this.loads.has(view.src)) {
      const image = new Image();
      image.src = view.src;
      this.loads.set(view.src, image.decode().catch(() => {}).then(() => image));
    }
    return this.loads.get(view.src);
  }
}

async function recordOf(place) {
  const inside = place.querySelector('script[type="application/json"]');
  if (inside) return JSON.parse(inside.textContent);
  return (await fetch(place.dataset.views)).json();
}

async function mount(place) {
  const record = await recordOf(place);
  const base = new URL(place.dataset.views ?? "", document.baseURI);
  const model = new RecordedModel(record, base);
  const el = document.createElement("div");
  explorer.render({ model, el, loading: "lazy" });
  place.replaceChildren(el);
  const watch = new IntersectionObserver((seen) => {
    if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
    watch.disconnect();
    model.loadNeighbours();
  }, { rootMargin: NEAR });
  watch.observe(place);
}

function mountAll() {
  for (const place of document.querySelectorAll("div.course-recorded")) {
    // The still picture that is in it stays if that fails.
    mount(place).catch((error) => console.error("no controls for this picture:", error));
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mountAll);
else mountAll();

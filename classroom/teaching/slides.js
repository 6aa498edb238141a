// Keys: → space PageDown, ← PageUp, Home, End; N shows the notes, F fills the screen.
const slides = [...document.querySelectorAll(".slide")];
const main = document.querySelector("main");
let here = 0;

function show(number) {
  here = Math.max(0, Math.min(slides.length - 1, number));
  slides.forEach((slide, k) => slide.classList.toggle("here", k === here));
  history.replaceState(null, "", `#${here + 1}`);
}

function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720);
  main.style.transform = `scale(${scale}) translate(-50%, -50%)`;
}

const steps = {
  ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, Enter: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1,
};

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key in steps) show(here + (event.key === " " && event.shiftKey ? -1 : steps[event.key]));
  else if (event.key === "Home") show(0);
  else if (event.key === "End") show(slides.length - 1);
  else if (event.key === "n") main.classList.toggle("noted");
  else if (event.key === "f") document.documentElement.requestFullscreen?.();
  else return;
  event.preventDefault();
});
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
addEventListener("resize", fit);
fit();
show(Number(location.hash.slice(1)) - 1 || 0);

// The script of the book's pages: it keeps predictions in this browser, and shows them later.

const MOST_SHOWN = 40; // characters of a prediction

function keyOf(element) {
  return `guess ${location.pathname.split("/").pop()} ${element.dataset.question}`;
}

function remembered(key) {
  try {
    return localStorage.getItem(key) || "";
  } catch {
    return ""; // some browsers keep nothing for files on a disk
  }
}

function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // the prediction is then shown only on this page
  }
}

function tell(question, text, unit) {
  for (const place of document.querySelectorAll(".course-guessed")) {
    if (place.dataset.question !== question) continue;
    place.hidden = !text;
    place.textContent = text ? `You predicted ${text} ${unit}.` : "";
  }
}

function begin(form) {
  const input = form.querySelector("input");
  const { question, unit } = form.dataset;
  const take = () => {
    const text = input.value.trim().slice(0, MOST_SHOWN);
    remember(keyOf(form), text);
    tell(question, text, unit);
  };
  input.value = remembered(keyOf(form));
  tell(question, input.value, unit);
  input.addEventListener("input", take);
  form.addEventListener("submit", (event) => event.preventDefault());
}

document.querySelectorAll(".course-guess").forEach(begin);

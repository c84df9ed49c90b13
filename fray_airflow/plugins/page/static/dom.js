// Elements from data. Every text becomes a text node: nothing that comes from outside is ever read as markup.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listen] of Object.entries(value)) element.addEventListener(event, listen);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

// Puts new content in, and the focus back on the control of the same key.
export function fill(element, ...children) {
  const active = element.contains(document.activeElement) ? document.activeElement : null;
  const key = active?.dataset.key;
  element.replaceChildren();
  append(element, children);
  if (key) element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

export function speak(text) {
  document.getElementById("spoken").textContent = text;
}

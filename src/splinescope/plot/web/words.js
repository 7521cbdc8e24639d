// Words beside a picture: elements, numbers, lists, legends. Shared by the pages, the widget and the studio.

import {colorOf, FIRST_FOLD, gradient} from "./colors.js"

export function element(tag, properties = {}, ...children) {
  const {dataset, ...rest} = properties, made = Object.assign(document.createElement(tag), rest)
  Object.assign(made.dataset, dataset)
  made.append(...children)
  return made
}

export function number(v) {
  return Number.isInteger(v) ? String(v) : Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5 ? v.toPrecision(5) : v.toExponential(3)
}

export function fillList(target, rows) {
  target.replaceChildren(...rows.flatMap(([key, value]) => [element("dt", {textContent: key}), element("dd", {textContent: value})]))
}

export const shown = (q, v) => q.categories ? q.categories[v] ?? String(v) : number(v)

export function fillLegend(target, view) {
  const q = view.quantity, by = element("div")
  if (q?.categories) {
    by.className = "classes"
    const present = new Set(q.values)
    q.categories.forEach((name, i) => {
      if (!present.has(i)) return
      const swatch = element("i", {className: "swatch"})
      swatch.style.background = colorOf(q, i)
      by.append(element("span", {}, swatch, name), " ")
    })
  } else {
    const bar = element("div", {id: "bar", className: "bar"}), [low, high] = q ? [q.low, q.high] : [1, view.deepest]
    bar.style.background = gradient(q ? 0 : FIRST_FOLD)
    by.append(bar, element("div", {className: "ends"}, ...[number(low), q?.log ? "logarithmic" : "", number(high)].map(text => element("span", {textContent: text}))))
  }
  target.replaceChildren(element("div", {className: "name", textContent: q ? q.label : "depth of the fold"}), by)
}

export function showError(target, error) {
  target.replaceChildren(element("p", {id: "error", textContent: error.message}))
  console.error(error)
}

// The words beside a tiling: legend, what is under the pointer, controls. Shared by the page, the widget and the studio.

import {colorOf, FIRST_FOLD, gradient} from "./colors.js"
import {TilingView} from "./viewer.js"

const MOST_OUTPUTS = 12

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

const shown = (q, v) => q.categories ? q.categories[v] ?? String(v) : number(v)

export function tileRows(view, tile, x, y) { // what is known of the tile under the pointer, as pairs
  if (tile < 0) return [["tile", "none"]]
  const outputs = view.outputs(tile, x, y), rows = [["tile", String(tile)]]
  for (const q of view.data.quantities) if (q.name !== "value" || !outputs.length) rows.push([q.label, shown(q, q.values[tile])])
  const order = outputs.map((value, i) => [`output ${i} here`, number(value), value])
  if (order.length > MOST_OUTPUTS) order.sort((a, b) => b[2] - a[2]).splice(MOST_OUTPUTS)
  return [...rows, ...order.map(row => row.slice(0, 2)), ["at", `${number(x)}, ${number(y)}`]]
}

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

// The whole explorer of one tiling in `root`, which must hold the elements of `tiling.html` (found by class).
export function explore(root, data) {
  const $ = name => root.querySelector(`#${name}`), view = new TilingView($("view"), data)
  for (const q of data.quantities) $("color").append(new Option(q.label, q.name))
  $("color").append(new Option("folds by layer", "folds"))
  const recolor = () => { $("folds").parentElement.hidden = $("color").value === "folds"; view.colorBy($("color").value); fillLegend($("legend"), view) }
  $("color").onchange = recolor
  for (const id of ["folds", "boundary", "anchors"]) $(id).onchange = () => { view.show[id] = $(id).checked; view.changed() }
  if (!data.boundary.length) $("boundary").parentElement.hidden = true
  if (!data.anchors.length) $("anchors").parentElement.hidden = true
  $("home").onclick = () => view.home()
  view.onhover = (tile, x, y) => fillList($("tile"), tileRows(view, tile, x, y))
  view.onview = () => fillList($("where"), [["centre", `${number(view.x)}, ${number(view.y)}`], ["width", number(view.width / view.scale)]])
  view.onhover(-1, 0, 0)
  view.onview()
  fillList($("notes"), data.notes)
  fillLegend($("legend"), view)
  return view
}

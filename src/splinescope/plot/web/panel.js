// The words beside a tiling of a plane: what is under the pointer, controls. Shared by the page, the widget and the studio.

import {restAt} from "./mesh.js"
import {TilingView} from "./viewer.js"
import {fillLegend, fillList, number, shown} from "./words.js"

const MOST_OUTPUTS = 12

export function tileRows(view, tile, x, y) { // what is known of the tile under the pointer, as pairs
  if (tile < 0 && restAt(view.data.rest, x, y) >= 0) return [["tile", `one of ${view.data.rest.count.toLocaleString("en")} that are too small for this page`]]
  if (tile < 0) return [["tile", "none"]]
  const outputs = view.outputs(tile, x, y), rows = [["tile", String(view.data.numbers?.[tile] ?? tile)]]
  for (const q of view.data.quantities) if (q.name !== "value" || !outputs.length) rows.push([q.label, shown(q, q.values[tile])])
  const order = outputs.map((value, i) => [`output ${i} here`, number(value), value])
  if (order.length > MOST_OUTPUTS) order.sort((a, b) => b[2] - a[2]).splice(MOST_OUTPUTS)
  return [...rows, ...order.map(row => row.slice(0, 2)), ["at", `${number(x)}, ${number(y)}`]]
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

// The words beside a tiling of a plane: what is under the pointer, controls. Shared by the page and the studio.

import {sharedScale} from "./colors.js"
import {restAt} from "./mesh.js"
import {TilingView} from "./viewer.js"
import {classOf, element, fillLegend, fillList, number, shown, timeSlider} from "./words.js"

const MOST_OUTPUTS = 12

export function tileRows(view, tile, x, y) { // what is known of the tile under the pointer, as pairs
  if (tile < 0 && restAt(view.data.rest, x, y) >= 0) return [["tile", `one of ${view.data.rest.count.toLocaleString("en")} that are too small for this page`]]
  if (tile < 0) return [["tile", "none"]]
  const outputs = view.outputs(tile, x, y), rows = [["tile", String(view.data.numbers?.[tile] ?? tile)]]
  for (const q of view.data.quantities) if (q.name !== "value" || !outputs.length) rows.push([q.label, shown(q, q.name === "class" && outputs.length ? classOf(outputs) : q.values[tile])])
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
  for (const id of ["folds", "boundary", "anchors"]) $(id).onchange = () => { view.show[id] = $(id).checked; view.changed(); fillLegend($("legend"), view) }
  if (!data.boundary.length) $("boundary").parentElement.hidden = true
  if (!data.anchors.length) $("anchors").parentElement.hidden = true
  if (data.labels?.length) $("anchors").nextSibling.textContent = " data"
  $("home").onclick = () => view.home()
  view.onhover = (tile, x, y) => fillList($("tile"), tileRows(view, tile, x, y))
  view.onview = () => fillList($("where"), [["center", `${number(view.x)}, ${number(view.y)}`], ["width", number(view.width / view.scale)]])
  view.onhover(-1, 0, 0)
  if (data.look) takeLook($, view, data.look)
  view.onview()
  fillList($("notes"), data.notes)
  fillLegend($("legend"), view)
  return view
}

// The same for moments of a training, `{moments: [data with `moment`, its name]}`, with a slider through time; one scale of colors for all.
// A moment may have `layers` of its own; `words` are told beside the picture.
export function exploreFilm(root, {moments, look, words}) {
  for (const {name} of moments[0].quantities) {
    const scale = sharedScale(moments, name)
    for (const {quantities} of moments) Object.assign(quantities.find(q => q.name === name) ?? {}, scale)
  }
  const start = look.start ?? moments.length - 1, view = explore(root, {...moments[start], look})
  root.querySelector("#boundary").parentElement.hidden = !moments.some(each => each.boundary.length)
  if (words) root.querySelector("aside").prepend(...words.map(text => element("p", {textContent: text})))
  timeSlider(root, moments.map(each => each.moment), i => {
    view.layers = moments[i].layers ?? look.layers
    view.setData(moments[i])
    fillLegend(root.querySelector("#legend"), view)
    fillList(root.querySelector("#notes"), moments[i].notes)
  }, start)
  return view
}

function takeLook($, view, {color, hide, layers, at}) { // of a page that shows what another one showed
  $("color").value = color
  for (const id of hide) if ($(id)) $(id).checked = false
  for (const id of hide) view.show[id] = false
  view.layers = layers
  if (at) view.lookAt(at[0], at[1], Math.min(view.width, view.height) / at[2])
  $("color").onchange()
}

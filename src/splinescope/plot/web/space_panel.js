// The words and controls beside a 3-D tiling. Shared by the page and whoever embeds the view.

import {SpaceView} from "./space.js"
import {classOf, element, fillLegend, fillList, number, shown} from "./words.js"

const MOST_MAPS = 5

const term = (v, name) => `${v < 0 ? "−" : "+"} ${name && Math.abs(v) === 1 ? "" : number(Math.abs(v))}${name}`
const sum = terms => terms.join(" ").replace(/^\+ /, "").replace(/^− /, "−")

const valueAt = (map, at) => map[0] * at[0] + map[1] * at[1] + map[2] * at[2] + map[3]
const outputsHere = (view, tile, at) => view.solid.map(tile).map(map => valueAt(map, at))

export function cellRows(view, tile, at) { // what is known of the cell under the pointer, as pairs
  if (tile < 0) return [["cell", "none"]]
  const {data, solid} = view, rows = [["cell", String(data.numbers?.[tile] ?? tile)]]
  for (const q of data.quantities) if (q.name !== "value" || !solid.outputs) rows.push([q.label, shown(q, q.name === "class" && solid.outputs ? classOf(outputsHere(view, tile, at)) : q.values[tile])])
  return [...rows, ...at.map((v, k) => [`at t${"₁₂₃"[k]}`, number(v)])]
}

export function cellMap(view, tile, at) { // its affine map, a line per output; of many outputs, the largest here
  const maps = tile < 0 ? [] : view.solid.map(tile).map((map, i) => ({i, map, here: valueAt(map, at)}))
  if (maps.length > MOST_MAPS) maps.sort((a, b) => b.here - a.here).splice(MOST_MAPS)
  return maps.map(({i, map, here}) => `output ${i} = ${sum([..."₁₂₃"].map((k, j) => term(map[j], ` t${k}`)))} ${term(map[3], "")} = ${number(here)} here`)
}

// The whole explorer of one 3-D tiling in `root`, which must hold the elements of `space.html`.
export function exploreSpace(root, data) {
  const $ = name => root.querySelector(`#${name}`), view = new SpaceView($("view"), data)
  for (const q of data.quantities) $("color").append(new Option(q.label, q.name))
  $("color").append(new Option("folds by layer", "folds"))
  $("color").onchange = () => { $("folds").parentElement.hidden = $("color").value === "folds"; view.colorBy($("color").value); fillLegend($("legend"), view) }
  for (const id of ["cells", "folds", "boundary", "points", "plane", "level"]) $(id).onchange = () => { view.show[id] = $(id).checked; view.moved() }
  if (!data.surface) $("boundary").parentElement.hidden = true
  if (!data.points.length) $("points").parentElement.hidden = true
  $("home").onclick = () => view.home()
  for (const button of $("normals").querySelectorAll("button")) button.onclick = () => {
    const axis = Number(button.dataset.axis)
    view.setPlane(axis < 3 ? [0, 1, 2].map(k => k === axis ? (k === 1 ? -1 : 1) : 0) : view.camera.frame().back, 0)
  }
  $("offset").oninput = () => view.setPlane(view.plane.normal, $("offset").value * view.reach())
  $("pull").oninput = () => view.setPull(Number($("pull").value))
  levels($, view)
  view.onhover = (tile, at) => {
    fillList($("tile"), cellRows(view, tile, at))
    $("map").replaceChildren(...cellMap(view, tile, at).map(line => element("div", {textContent: line})))
  }
  view.onview = () => {
    const kept = view.planeInSlice().map(v => Number(v.toPrecision(4)))
    $("offset").value = view.plane.offset / view.reach()
    $("pull").value = view.pull
    const side = sum(kept.slice(0, 3).map((v, k) => v && term(v, ` t${"₁₂₃"[k]}`)).filter(Boolean))
    fillList($("kept"), view.show.plane ? [["kept", `${side} ≤ ${number(kept[3])}`]] : [])
    if (view.pull > 0) view.build() // tells what is drawn
    fillList($("drawn"), [["cells drawn", view.drawn()]])
  }
  view.onhover(-1, null)
  view.onview()
  fillList($("notes"), [...data.notes, ...(view.solid.stretched ? [["axes", "each to its own scale"]] : [])])
  fillLegend($("legend"), view)
  return view
}

function levels($, view) { // the output and the value of the level set
  const {outputs, data} = view.solid
  $("levels").hidden = !outputs
  if (!outputs) return
  for (let k = 0; k < outputs; k++) $("output").append(new Option(`output ${k}`, k))
  const range = () => { // slider and value for another output
    let low = Infinity, high = -Infinity
    for (let i = Number($("output").value); i < data.values.length; i += outputs) { low = Math.min(low, data.values[i]); high = Math.max(high, data.values[i]) }
    $("heights").min = low
    $("heights").max = high
    return low <= 0 && high >= 0 ? 0 : (low + high) / 2
  }
  const set = value => {
    $("height").value = Number(value.toPrecision(6))
    $("heights").value = value
    view.setLevel(Number($("output").value), Number($("height").value))
  }
  $("output").onchange = () => set(range())
  $("heights").oninput = () => set(Number($("heights").value))
  $("height").onchange = () => { if (Number.isFinite($("height").valueAsNumber)) set($("height").valueAsNumber) }
  set(range())
}

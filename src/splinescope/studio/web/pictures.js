// Pictures to take home, with a legend: the page's own pixels (PNG), and its polygons and lines (SVG).

import {colorAt, levelOf, markOf, pointColor} from "../viewer/colors.js"
import {classPieces, eachWall} from "../viewer/mesh.js"
import {element, legendOf, number} from "../viewer/words.js"

const MOST_SVG = 50_000
const LINE = 26, FONT = "14px system-ui, sans-serif", LETTER = 7.6 // pixels: of a legend

// A legend below a picture as shapes: {text | fill | stroke, x, y, points}, and how high it is.

function legendShapes(view, labels, {width, height} = view, caption = "") {
  const {name, classes, low, high, log, from, boundary} = legendOf(view), shapes = []
  let x = 12, y = height + LINE / 2
  const item = (long, draw) => {
    if (x > 12 && x + long > width) { x = 12; y += LINE }
    draw(x)
    x += long + 18
  }
  const say = text => item(LETTER * text.length, at => shapes.push({text, x: at, y}))
  const say_after = (text, long, fill, outline) => item(long + LETTER * text.length, at => shapes.push({...outline(at), ...fill}, {text, x: at + long, y}))
  const block = (at, long, thick = 14) => [[at, y - thick / 2], [at + long, y - thick / 2], [at + long, y + thick / 2], [at, y + thick / 2]]
  if (caption) say(caption)
  say(name)
  for (const [, text, color] of classes ?? []) say_after(text, 20, {fill: color}, at => ({points: block(at, 14)}))
  if (!classes) {
    say(number(low))
    item(160, at => { for (let i = 0; i < 32; i++) shapes.push({fill: rgb(colorAt(null, from + (1 - from) * i / 31)), points: block(at + 5 * i, 5.5)}) })
    say(number(high) + (log ? ", logarithmic" : ""))
  }
  if (boundary) say_after("decision boundary", 30, {fill: "#d60000"}, at => ({points: block(at, 24, 3)}))
  for (const label of [...new Set(labels)].sort((a, b) => a - b)) say_after(`data of class ${label}`, 18, {fill: pointColor([label], 0), stroke: "#000"}, at => ({points: mark(label, at + 7, y, 6)}))
  return {shapes, height: y + LINE / 2 - height}
}

const rgb = color => `rgb(${color.join(",")})`
const mark = (label, x, y, radius) => markOf(label ?? 0).map(([dx, dy]) => [x + radius * dx, y - radius * dy])
const inkOf = view => getComputedStyle(view.overlay).color
const groundOf = view => rgb(view.ground.map(v => Math.round(255 * v)))

// Tiles, what is drawn on them, and the legend, as one canvas; of the view's own size, or so many pixels wide.
export function picture(view, points = [], {width = view.width, ratio = view.ratio ?? devicePixelRatio ?? 1, caption} = {}) {
  view.draw()
  const height = view.height * width / view.width, out = element("canvas"), pen = out.getContext("2d")
  const legend = view.drawOverlay ? legendShapes(view, points.map(p => p[2]).filter(Number.isInteger), {width, height}, caption) : {shapes: [], height: 0} // of a plane
  Object.assign(out, {width: Math.round(ratio * width), height: Math.round(ratio * height) + Math.round(ratio * legend.height)})
  pen.fillStyle = groundOf(view)
  pen.fillRect(0, 0, out.width, out.height)
  for (const layer of [view.canvas, view.overlay]) pen.drawImage(layer, 0, 0, out.width, Math.round(ratio * height)) // tiles may be drawn coarser
  pen.scale(ratio, ratio)
  Object.assign(pen, {font: FONT, textBaseline: "middle"})
  for (const {text, x, y, fill, stroke, points} of legend.shapes) {
    pen.fillStyle = fill ?? inkOf(view)
    if (text) { pen.fillText(text, x, y); continue }
    pen.beginPath()
    points.forEach(point => pen.lineTo(...point))
    pen.closePath()
    pen.fill()
    if (stroke) { pen.strokeStyle = stroke; pen.stroke() }
  }
  return out
}

export function svg(view, points = []) { // what is in view, in pixels; points: [[x, y, class]]
  const {data, quantity, width, height} = view, {offsets, corners, vertices, boundary} = data, parts = []
  const at = (x, y) => view.toScreen(x, y).map(v => v.toFixed(2)).join(","), line = (ax, ay, bx, by) => `M${at(ax, ay)}L${at(bx, by)}`
  const polygon = (places, style) => `<polygon points="${places.join(" ")}" ${style}/>`, filled = color => `fill="${color}" stroke="${color}" stroke-width=".5"` // or hairs show between tiles
  const colorFor = value => rgb(colorAt(quantity, levelOf(quantity, value)))
  for (let t = 0, drawn = 0; quantity && t < view.count && drawn < MOST_SVG; t++) {
    const b = 4 * t, [left, low] = view.toScreen(view.bounds[b], view.bounds[b + 1]), [right, high] = view.toScreen(view.bounds[b + 2], view.bounds[b + 3])
    if (right < 0 || left > width || low < 0 || high > height) continue
    drawn++
    if (view.cutsClasses) for (const [k, ring] of classPieces(data, t)) parts.push(polygon(ring.map(([x, y]) => at(x, y)), filled(colorFor(k))))
    else parts.push(polygon(Array.from(corners.subarray(offsets[t], offsets[t + 1]), i => at(vertices[2 * i], vertices[2 * i + 1])), filled(colorFor(quantity.values[t]))))
  }
  const walls = new Map(), lines = []
  if (view.show.folds || !quantity) eachWall(data, view.layers, (ax, ay, bx, by, depth) => walls.set(depth, `${walls.get(depth) ?? ""}${line(ax, ay, bx, by)}`))
  const thin = view.bold * (quantity ? 0.5 : 1), drawnWalls = [...walls].map(([depth, path]) => `<path d="${path}" fill="none" stroke="${view.wallColor(depth)}" stroke-width="${thin}"/>`)
  if (view.hasBoundary) for (let i = 0; i < boundary.length; i += 4) lines.push(line(...boundary.subarray(i, i + 4)))
  const edge = lines.length ? [4, 2].map((wide, i) => `<path d="${lines.join("")}" fill="none" stroke="${["#fff", "#d60000"][i]}" stroke-width="${wide * view.bold}" stroke-linecap="round"/>`) : []
  const dots = points.map(([x, y, label]) => polygon(mark(label, ...view.toScreen(x, y), 4 * view.bold).map(p => p.map(v => v.toFixed(2)).join(",")), `class="point" fill="${pointColor(label === null ? [] : [label], 0)}" stroke="#000"`))
  const legend = legendShapes(view, points.map(p => p[2]).filter(Number.isInteger)), ink = inkOf(view), whole = height + legend.height
  const key = legend.shapes.map(({text, x, y, fill, stroke, points: outline}) => text
    ? `<text x="${x}" y="${y}" dominant-baseline="central" fill="${ink}" style="font: ${FONT}">${text.replace(/[&<]/g, c => ({"&": "&amp;", "<": "&lt;"})[c])}</text>`
    : polygon(outline.map(p => p.map(v => v.toFixed(2)).join(",")), `fill="${fill}"${stroke ? ` stroke="${stroke}"` : ""}`))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${whole}" width="${width}" height="${whole}"><rect width="100%" height="100%" fill="${groundOf(view)}"/>`
    + `${quantity ? "" : `<rect width="${width}" height="${height}" fill="#0f141c"/>`}<g class="tiles">${parts.join("")}</g>${drawnWalls.join("")}${edge.join("")}${dots.join("")}<g class="legend">${key.join("")}</g></svg>`
}

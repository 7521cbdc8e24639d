// Points that move in one or two panels as a slider goes through moments: scenes of the studio, and pages of them.
//
// scene: {panels [{title, lines Float32Array[4n]}], classes, sizes, moments [{label, notes, places [Float32Array[2k] a panel], classes?, sizes?}]}

import {markOf, pointColor} from "./colors.js"
import {element, fillList, timeSlider} from "./words.js"

const MARGIN = 0.06
const CLASSES = 10 // colors beyond are of no class

export function drawPanel(canvas, scene, i, at, bold = 1) { // one panel of a scene at a moment
  const moment = scene.moments[at], classes = moment.classes ?? scene.classes, sizes = moment.sizes ?? scene.sizes
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
  if (!width) return
  canvas.width = width * ratio
  canvas.height = height * ratio
  const {lines, box} = scene.panels[i], pen = canvas.getContext("2d"), [x0, y0, x1, y1] = box ?? (scene.panels[i].box = boxOf([lines, ...scene.moments.map(m => m.places[i])]))
  const scale = (1 - 2 * MARGIN) * Math.min(width / (x1 - x0), height / (y1 - y0))
  const place = (x, y) => [width / 2 + (x - (x0 + x1) / 2) * scale, height / 2 - (y - (y0 + y1) / 2) * scale]
  pen.scale(ratio, ratio)
  pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--muted")
  pen.globalAlpha = 0.55
  pen.beginPath()
  for (let k = 0; k < lines.length; k += 4) { pen.moveTo(...place(lines[k], lines[k + 1])); pen.lineTo(...place(lines[k + 2], lines[k + 3])) }
  pen.stroke()
  pen.globalAlpha = 1
  pen.lineWidth = 0.7
  pen.strokeStyle = "#000"
  const points = moment.places[i]
  for (let k = 0; k < points.length / 2; k++) {
    pen.beginPath()
    const [px, py] = place(points[2 * k], points[2 * k + 1])
    for (const [dx, dy] of markOf(classes[k] < CLASSES ? classes[k] : 0)) pen.lineTo(px + bold * sizes[k] * dx, py - bold * sizes[k] * dy)
    pen.closePath()
    pen.fillStyle = pointColor(classes, k)
    pen.fill()
    if (sizes[k] > 2) pen.stroke()
  }
  canvas.setAttribute("aria-label", `${scene.panels[i].title}, ${moment.label}`)
}

function boxOf(lists) { // of points x, y, over all moments: the picture holds still
  let box = [Infinity, Infinity, -Infinity, -Infinity]
  for (const list of lists) for (let i = 0; i < list.length; i += 2) box = [Math.min(box[0], list[i]), Math.min(box[1], list[i + 1]), Math.max(box[2], list[i]), Math.max(box[3], list[i + 1])]
  return box
}

// A page of one scene in `root`, which must hold the elements of `points.html`.
export function explorePoints(root, scene) {
  const canvases = scene.panels.map(panel => {
    const canvas = element("canvas")
    canvas.setAttribute("role", "img")
    root.querySelector("#view").append(element("div", {className: "panel"}, element("p", {className: "muted", textContent: panel.title}), canvas))
    return canvas
  })
  let at = 0
  const draw = () => canvases.forEach((canvas, i) => drawPanel(canvas, scene, i, at))
  const show = i => { at = i; fillList(root.querySelector("#notes"), scene.moments[i].notes); draw() }
  root.querySelector("#words").append(...scene.words.map(text => element("p", {textContent: text})))
  timeSlider(root, scene.moments.map(each => each.label), show, 0)
  for (const canvas of canvases) new ResizeObserver(draw).observe(canvas)
  return {scene, canvases}
}

// The network's diagram: a small picture of every unit's own folded sheet (its output over the square), and wires as wide as weights.

import {element} from "../viewer/words.js"

const SIDE = 16 // pixels of a picture, as both engines send them
const UP = [230, 159, 0], DOWN = [0, 114, 178] // above and below zero, which is plain
const MOST_WIRES = 400 // of all units at once; beyond, of the chosen one alone
const FAINT = 0.5

export class Diagram {
  constructor(target, onselect) {
    Object.assign(this, {target, onselect, chosen: null, wires: null})
    new ResizeObserver(() => this.drawWires()).observe(target)
  }

  layOut(depth, width, classes) { // rows: inputs, layers, outputs
    this.sizes = [2, ...Array(depth).fill(width), classes]
    this.canvas = element("canvas")
    this.canvas.setAttribute("role", "img")
    this.canvas.setAttribute("aria-label", "weights between units: orange above zero, blue below")
    const names = ["input", ...Array.from({length: depth}, (_, i) => `layer ${i + 1}`), "output"]
    this.nodes = this.sizes.map((size, row) => Array.from({length: size}, (_, unit) => this.node(row - 1, unit, depth)))
    this.target.replaceChildren(this.canvas, ...names.map((name, row) => element("div", {className: "row"}, element("span", {textContent: name}), element("div", {}, ...this.nodes[row]))))
    this.target.style.setProperty("--node", `${Math.max(18, Math.min(28, 210 / width - 3))}px`) // in one line if they fit
    paint(this.nodes[0][0], i => 254 * (i % SIDE + 0.5) / SIDE)
    paint(this.nodes[0][1], i => 254 * (1 - (Math.floor(i / SIDE) + 0.5) / SIDE))
  }

  node(layer, unit, depth) {
    const picture = element("canvas", {width: SIDE, height: SIDE}), hidden = layer >= 0 && layer < depth
    const name = hidden ? `layer ${layer + 1}, unit ${unit + 1}` : layer < 0 ? `input ${"xy"[unit]}` : `output ${unit}`
    if (!hidden) return element("span", {className: "node", title: name}, picture)
    const button = element("button", {type: "button", className: "node", title: name, dataset: {unit: `${layer},${unit}`}}, picture)
    button.setAttribute("aria-label", name)
    button.onclick = () => this.onselect(String(this.chosen) === `${layer},${unit}` ? null : [layer, unit])
    return button
  }

  show({sheets, wires}) { // of a frame that has them
    if (!sheets || sheets.length !== SIDE * SIDE * this.nodes.slice(1).flat().length) return
    this.nodes.slice(1).flat().forEach((node, n) => paint(node, i => sheets[n * SIDE * SIDE + i]))
    this.wires = wires
    this.drawWires()
  }

  select(unit) {
    this.chosen = unit
    for (const button of this.target.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.unit === String(unit)))
    this.drawWires()
  }

  drawWires() {
    const {canvas, target, wires, chosen, sizes} = this
    if (!wires || !target.clientWidth) return
    const ratio = devicePixelRatio || 1, box = target.getBoundingClientRect(), pen = canvas.getContext("2d")
    canvas.width = target.clientWidth * ratio
    canvas.height = target.clientHeight * ratio
    pen.scale(ratio, ratio)
    const ends = this.nodes.map(row => row.map(node => { const {left, right, top, bottom} = node.getBoundingClientRect(); return [(left + right) / 2 - box.left, top - box.top, bottom - box.top] }))
    const largest = wires.reduce((most, w) => Math.max(most, Math.abs(w)), 1e-12)
    let at = 0
    for (let row = 0; row + 1 < sizes.length; row++) for (let to = 0; to < sizes[row + 1]; to++) for (let from = 0; from < sizes[row]; from++) {
      const weight = wires[at++], mine = chosen && ((chosen[0] === row && chosen[1] === to) || (chosen[0] === row - 1 && chosen[1] === from))
      if (chosen ? !mine : wires.length > MOST_WIRES) continue
      pen.beginPath()
      pen.moveTo(ends[row][from][0], ends[row][from][2])
      pen.lineTo(ends[row + 1][to][0], ends[row + 1][to][1])
      pen.strokeStyle = `rgba(${(weight > 0 ? UP : DOWN).join(",")},${chosen ? 1 : FAINT})`
      pen.lineWidth = 0.2 + 3 * Math.abs(weight) / largest
      pen.stroke()
    }
  }
}

function paint(node, level) { // level(i): 0 to 254, 127 is zero; rows from the top
  const pen = node.firstChild.getContext("2d"), image = pen.createImageData(SIDE, SIDE)
  for (let i = 0; i < SIDE * SIDE; i++) {
    const value = (level(i) - 127) / 127
    image.data.set([...(value > 0 ? UP : DOWN), 255 * Math.abs(value)], 4 * i)
  }
  pen.putImageData(image, 0, 0)
}

// A small curve over training steps, with its latest values in words.

import {element} from "../viewer/words.js"

const DASHES = [[], [7, 4], [2, 3]] // so that curves are told apart in gray, too
const short = v => {
  const size = Math.abs(v)
  return size >= 10_000 ? `${Number((v / 1000).toPrecision(3))}k` : size > 0 && size < 0.001 ? v.toExponential(1) : String(Number(v.toPrecision(size >= 1000 ? 4 : size >= 1 ? 3 : 2)))
}
const MOST = 1200 // points kept; then every other one is dropped

export class Curve {
  constructor(parent, title, series, {low, log} = {}) { // series: [[key, label, color]]
    Object.assign(this, {series, low, log, steps: [], values: series.map(() => [])})
    this.readings = series.map(([, label, color]) => {
      const mark = element("i")
      mark.style.borderTop = `3px ${["solid", "dashed", "dotted"][series.findIndex(each => each[1] === label)]} ${color}`
      return {text: document.createTextNode(""), label, mark, last: null}
    })
    this.canvas = element("canvas")
    this.canvas.setAttribute("role", "img")
    this.title = title
    this.onpick = () => {}
    const pick = event => { const box = this.canvas.getBoundingClientRect(), share = (event.clientX - box.left - this.gutter) / (box.width - this.gutter); if (this.steps.length) this.onpick(this.steps[0] + share * (this.steps.at(-1) - this.steps[0])) }
    this.canvas.addEventListener("pointerdown", event => { this.canvas.setPointerCapture(event.pointerId); pick(event) })
    this.canvas.addEventListener("pointermove", event => { if (event.buttons) pick(event) })
    this.canvas.tabIndex = 0
    this.canvas.title = "drag along it to look back; arrow keys, too"
    this.canvas.addEventListener("keydown", event => {
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key], at = this.marked ?? this.steps.at(-1)
      if (!way || !this.steps.length) return
      event.preventDefault()
      this.onpick(at + way * Math.max(1, (this.steps.at(-1) - this.steps[0]) / 30))
    })
    const values = element("div", {className: "values"}, ...this.readings.map(r => element("span", {}, r.mark, r.text)))
    this.root = element("div", {className: "curve"}, element("div", {className: "head"}, element("b", {textContent: title}), values), this.canvas)
    parent.append(this.root)
    new ResizeObserver(() => this.draw()).observe(this.canvas)
  }

  mark(step) { // a moment that is looked back at; null for none
    if (this.marked === step) return
    this.marked = step
    this.draw()
  }

  clear() {
    this.steps = []
    this.values = this.series.map(() => [])
    this.draw()
  }

  add(step, measures) {
    if (this.steps.at(-1) === step) { this.steps.pop(); this.values.forEach(v => v.pop()) }
    this.steps.push(step)
    this.series.forEach(([key], i) => this.values[i].push(measures[key] ?? null)) // not measured at this step: a gap
    if (this.steps.length > MOST) {
      const half = list => list.filter((_, i) => i % 2 === 0)
      this.steps = half(this.steps)
      this.values = this.values.map(half)
    }
    this.series.forEach(([key], i) => { if (key in measures) this.readings[i].last = measures[key] })
    if (this.waiting) return // a few times a second is enough for a curve
    this.waiting = setTimeout(() => { this.waiting = 0; this.tell(); this.draw() }, 150)
  }

  tell() {
    for (const r of this.readings) r.text.textContent = `${r.label ? `${r.label} ` : ""}${r.last === null ? "–" : Number.isInteger(r.last) ? r.last : Number(r.last.toPrecision(3))}`
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.readings.map(r => r.text.textContent).join(", ")}`)
  }

  draw() {
    const {canvas} = this, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
    if (!width) return
    canvas.width = width * ratio
    canvas.height = height * ratio
    const pen = canvas.getContext("2d", {willReadFrequently: true}), style = getComputedStyle(canvas)
    pen.scale(ratio, ratio)
    pen.strokeStyle = style.getPropertyValue("--line")
    const letter = 0.75 * parseFloat(style.fontSize), GUTTER = this.gutter = 4 * letter // pixels: of the ends of the scale
    pen.strokeRect(GUTTER + 0.5, 0.5, width - GUTTER - 1, height - 1)
    const scale = this.log ? Math.log : v => v, all = this.values.flat().filter(v => v !== null && (!this.log || v > 0)).map(scale)
    if (!all.length) return
    let low = this.low ?? Math.min(...all), high = Math.max(...all)
    const ends = this.log ? [low, high].map(Math.exp) : [low, high], flat = high - low < 1e-9
    if (flat) high = low + 1
    pen.fillStyle = style.getPropertyValue("--muted")
    pen.font = `${letter}px ${style.fontFamily}`
    pen.textAlign = "right"
    pen.fillText(short(ends[0]), GUTTER - 4, height - 2)
    if (!flat) pen.fillText(short(ends[1]), GUTTER - 4, letter)
    const first = this.steps[0], last = Math.max(this.steps.at(-1), first + 1)
    const across = step => GUTTER + 2 + (width - GUTTER - 4) * (step - first) / (last - first), up = value => height - 4 - (height - 8) * (scale(value) - low) / (high - low)
    if (this.marked !== null && this.marked !== undefined) {
      pen.fillStyle = style.getPropertyValue("--accent")
      pen.fillRect(across(this.marked) - 1, 1, 2, height - 2)
    }
    this.series.forEach(([,, color], i) => {
      pen.beginPath()
      this.values[i].forEach((value, j) => {
        if (value === null || (this.log && value <= 0)) return
        pen.lineTo(across(this.steps[j]), up(value))
      })
      pen.strokeStyle = color
      pen.lineWidth = letter / 6
      pen.setLineDash(DASHES[i % DASHES.length].map(v => v * letter / 11))
      pen.lineJoin = "round"
      pen.stroke()
      const at = this.values[i].findLastIndex(v => v !== null), end = this.values[i][at]
      if (at < 0 || (this.log && end <= 0)) return
      pen.beginPath()
      pen.setLineDash([])
      pen.arc(across(this.steps[at]), up(end), letter / 4.5, 0, 2 * Math.PI)
      pen.fillStyle = color
      pen.fill()
    })
  }
}

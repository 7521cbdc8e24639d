// Scenes: points that move in one or two panels as a slider goes through moments. Stories tell what they are.

import {markOf} from "../viewer/colors.js"
import {fillList} from "../viewer/words.js"
import {classColor} from "./controls.js"
import {writeState} from "./state.js"
import {storyPanel} from "./stories.js"

const $ = id => document.getElementById(id)
const STEP = 120 // ms from one moment to the next while it plays
const MARGIN = 0.06
const CLASSES = 10 // colours beyond are of no class

export class ScenePage {
  constructor(channel) {
    Object.assign(this, {channel, scene: null, playing: 0, bold: 1})
    $("scene-play").onclick = () => this.play(!this.playing)
    $("scene-moment").oninput = () => { this.play(false); this.show(Number($("scene-moment").value)) }
    $("scene-seed").onchange = () => { writeState({seed: $("scene-seed").value}); this.load() }
    for (const canvas of this.canvases()) new ResizeObserver(() => this.scene && this.draw()).observe(canvas)
  }

  canvases() { return [...$("scene").querySelectorAll(".panel canvas")] }

  async open(state, story, fail) {
    Object.assign(this, {story, fail})
    storyPanel($("scene-story"), story, state.story, () => { location.hash = "#view=stories" })
    $("scene-seed").value = state.seed ?? 0
    await this.load()
  }

  async load() {
    this.play(false)
    $("scene-label").textContent = "computing…"
    const {story} = this
    try {
      const scene = await this.channel.ask("scene", {name: story.scene, seed: Number($("scene-seed").value)})
      if (story !== this.story) return // another story was opened meanwhile
      this.scene = scene
    } catch (error) { $("scene-label").textContent = ""; return this.fail(error.message) }
    this.boxes = this.scene.panels.map((panel, i) => boxOf([panel.lines, ...this.scene.moments.map(m => m.places[i])]))
    this.canvases().forEach((canvas, i) => {
      canvas.parentElement.hidden = i >= this.scene.panels.length
      canvas.previousElementSibling.textContent = this.scene.panels[i]?.title ?? ""
    })
    $("scene-moment").max = this.scene.moments.length - 1
    this.show(0)
  }

  show(at) {
    this.at = at
    const {label, notes} = this.scene.moments[at]
    $("scene-moment").value = at
    $("scene-label").textContent = label
    fillList($("scene-notes"), notes)
    this.canvases().forEach((canvas, i) => canvas.setAttribute("aria-label", `${this.scene.panels[i]?.title}, ${label}`))
    this.draw()
  }

  play(on) {
    clearInterval(this.playing)
    this.playing = 0
    $("scene-play").textContent = on ? "Pause" : "Play"
    $("scene-play").setAttribute("aria-pressed", String(on))
    if (!on || !this.scene) return
    if (this.at === this.scene.moments.length - 1) this.show(0)
    this.playing = setInterval(() => {
      this.show(this.at + 1)
      if (this.at === this.scene.moments.length - 1) this.play(false)
    }, STEP)
  }

  pause() { this.play(false) }

  setBold(times) { // for a screen that is far off
    this.bold = times
    if (this.scene) this.draw()
  }

  draw() {
    const {scene, boxes} = this, moment = scene.moments[this.at], classes = moment.classes ?? scene.classes, sizes = moment.sizes ?? scene.sizes
    this.canvases().slice(0, scene.panels.length).forEach((canvas, i) => {
      const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight
      if (!width) return
      canvas.width = width * ratio
      canvas.height = height * ratio
      const pen = canvas.getContext("2d"), [x0, y0, x1, y1] = boxes[i], scale = (1 - 2 * MARGIN) * Math.min(width / (x1 - x0), height / (y1 - y0))
      const place = (x, y) => [width / 2 + (x - (x0 + x1) / 2) * scale, height / 2 - (y - (y0 + y1) / 2) * scale]
      pen.scale(ratio, ratio)
      pen.strokeStyle = getComputedStyle(canvas).getPropertyValue("--muted")
      pen.globalAlpha = 0.55
      pen.beginPath()
      const {lines} = scene.panels[i]
      for (let k = 0; k < lines.length; k += 4) { pen.moveTo(...place(lines[k], lines[k + 1])); pen.lineTo(...place(lines[k + 2], lines[k + 3])) }
      pen.stroke()
      pen.globalAlpha = 1
      pen.lineWidth = 0.7
      pen.strokeStyle = "#000"
      const points = moment.places[i]
      for (let k = 0; k < points.length / 2; k++) {
        pen.beginPath()
        const [px, py] = place(points[2 * k], points[2 * k + 1])
        for (const [dx, dy] of markOf(classes[k] < CLASSES ? classes[k] : 0)) pen.lineTo(px + this.bold * sizes[k] * dx, py - this.bold * sizes[k] * dy)
        pen.closePath()
        pen.fillStyle = classColor(classes[k])
        pen.fill()
        if (sizes[k] > 2) pen.stroke()
      }
    })
  }
}

function boxOf(lists) { // of points x, y, over all moments: the picture holds still
  let box = [Infinity, Infinity, -Infinity, -Infinity]
  for (const list of lists) for (let i = 0; i < list.length; i += 2) box = [Math.min(box[0], list[i]), Math.min(box[1], list[i + 1]), Math.max(box[2], list[i]), Math.max(box[3], list[i + 1])]
  return box
}

// Scenes: points that move in one or two panels as a slider goes through moments. Stories tell what they are.

import {drawPanel} from "../viewer/points.js"
import {fillList} from "../viewer/words.js"
import {writeState} from "./state.js"
import {storyPanel} from "./stories.js"

const $ = id => document.getElementById(id)
const STEP = 120 // ms from one moment to the next while it plays

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

  draw() { this.canvases().slice(0, this.scene.panels.length).forEach((canvas, i) => drawPanel(canvas, this.scene, i, this.at, this.bold)) }
}

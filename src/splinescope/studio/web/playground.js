// The playground: a small network in training, its exact tiles live; points, folds and weights can be dragged.

import {tileRows} from "../viewer/panel.js"
import {TilingView} from "../viewer/viewer.js"
import {element, fillLegend, fillList, number} from "../viewer/words.js"
import {Curve} from "./chart.js"
import {classColor, Switches} from "./controls.js"
import {Diagram} from "./diagram.js"
import {readCsv} from "./sets.js"
import {formatPoints, lookText, lookThere, parsePoints, writeState} from "./state.js"
import {storyPanel} from "./stories.js"
import {MOST_MOMENTS, playgroundCode, takeHome} from "./take.js"

const $ = id => document.getElementById(id)
const GRIP = 10 // pixels: how near a pointer must be to a point or a fold to take it
const NEAR_GRIP = 4 // the same for a fold that was not chosen: elsewhere one drags the view
const CROWDED = 1500 // tiles from which folds must be chosen first
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}
const COLORS = [["class", "class"], ["slope", "slope norm"], ["depth", "depth of walls"], ["area", "area"], ["value", "first output"], ["folds", "folds by layer"]]
const LAYERS = [["walls", "walls"], ["boundary", "decision boundary"], ["points", "data"]], HATCH = "patterns"
const SPEEDS = [1, 2, 5, 10, 25, 50, 100]
const ORANGE = "#e69f00", BLUE = "#0072b2", GREEN = "#009e73", ROSE = "#cc79a7"

const ALL = 6 // layers: as many as there may be

export class PlaygroundPage {
  constructor(channel, limits) {
    Object.assign(this, {channel, limits, recipe: {...limits.defaults}, selected: null, running: false, tag: 0, frames: [], pen: 0, empty: false})
    this.curves = [
      new Curve($("curves"), "loss", [["loss", "", BLUE]], {log: true}),
      new Curve($("curves"), "accuracy", [["accuracy", "data", BLUE], ["test", "fresh", ORANGE]]),
      new Curve($("curves"), "tiles", [["tiles", "", GREEN]]),
      new Curve($("curves"), "tiles nearby", [["near data", "data", BLUE], ["near boundary", "boundary", ROSE]]),
    ]
    for (const curve of this.curves) curve.onpick = step => this.moments?.length && this.lookBack(step)
    this.switches = new Switches($("switches"), limits, this.recipe, recipe => this.make(recipe))
    this.diagram = new Diagram($("diagram"), unit => this.select(unit))
    this.weights = $("weights")
    this.addOwnTools()
    this.addLooks()
    this.listen()
    takeHome($("home-playground"), {
      view: () => this.view, name: () => "playground", points: () => this.look.points ? this.dots() : [], show: frame => this.showMoment(frame),
      moments: () => this.moments.map(frame => ({...frame, anchors: Array.from(frame.points), labels: Array.from(frame.classes), moment: `step ${frame.step}`})),
      fetch: channel.server ? () => channel.order("take", {tag: "take"}) : null,
      title: () => `${this.recipe.depth} x ${this.recipe.width} ${this.recipe.activation} on ${this.recipe.data}, step ${this.frame.step}`,
      code: () => playgroundCode(this.recipe, limits.defaults, this.frame?.step ?? 0, this.look, this.inSight(), this.byHand),
    })
    channel.addEventListener("frame", event => this.take(event.detail))
    channel.addEventListener("open", () => { if (this.shown) this.make(this.recipe) })
  }

  // ---- what the address says

  open(state, story) {
    this.shown = true
    this.story = story ?? null
    const given = {...(story?.recipe ?? {})}
    for (const [name, fallback] of Object.entries(this.limits.defaults)) if (name in state) given[name] = typeof fallback === "number" ? Number(state[name]) : typeof fallback === "boolean" ? state[name] === "true" : name === "points" ? parsePoints(state[name]) : state[name]
    const hidden = (state.hide ?? story?.look?.hide ?? "").split(",")
    this.recipe = {...this.limits.defaults, ...given}
    this.setLook({...this.plainLook(), ...pick(state, ["color"]), ...("layers" in state ? {layers: Number(state.layers)} : {}), patterns: "patterns" in state, ...Object.fromEntries(LAYERS.map(([name]) => [name, !hidden.includes(name)]))})
    this.setSpeed(Number(state.speed ?? story?.speed ?? 1))
    const curve = this.curves.find(each => each.title === story?.curve) ?? this.curves[0]
    for (const each of this.curves) each.root.classList.toggle("chosen", each === curve)
    storyPanel($("story"), story, state.story, () => this.leaveStory())
    this.wanted = state.look ?? null
    const steps = Math.max(0, Math.round(Number(state.step)) || 0)
    this.make(this.recipe, steps ? false : story?.run ?? false, steps)
    if (this.view) this.lookWhereWanted()
    if (state.story && !story && document.body.classList.contains("embed")) this.complain(`There is no story named “${state.story}”. This is the playground.`)
  }

  setBold(times) { // for a screen that is far off
    this.bold = times
    if (this.view) { this.view.bold = times; this.view.changed() }
    this.curves.forEach(curve => curve.draw())
  }

  showLayers(count) { this.setLook({...this.look, layers: count >= this.recipe.depth ? ALL : count}, true) }

  plainLook() { return {color: "class", layers: ALL, ...(this.story?.look ?? {})} }

  leaveStory() { // its state stays, told in full
    this.story = null
    $("story").hidden = true
    writeState({story: null, speed: this.speed === 1 ? null : this.speed})
    this.writeRecipe()
    this.setLook(this.look, true)
  }

  writeRecipe() { // what differs from where one starts
    const start = {...this.limits.defaults, ...(this.story?.recipe ?? {})}, text = (name, value) => name === "points" ? formatPoints(value) : String(value)
    const changed = Object.fromEntries(Object.entries(this.recipe).map(([name, value]) => [name, JSON.stringify(value) === JSON.stringify(start[name]) ? null : text(name, value)]))
    writeState({view: this.story ? null : "playground", ...changed})
  }

  writeStep() { // so that a link leads to this very network; what was dragged is in no link
    writeState({step: this.running || this.byHand || !this.frame?.step ? null : this.frame.step})
  }

  inSight() { // [x0, x1, y0, y1], or null where all is
    const {view} = this, [x0, y1] = view.toSlice(0, 0), [x1, y0] = view.toSlice(view.width, view.height)
    return lookText(view) === null ? null : [x0, x1, y0, y1].map(v => Number(v.toPrecision(6)))
  }

  lookWhereWanted() {
    if (!this.wanted || !lookThere(this.view, this.wanted)) this.view.home()
    this.wanted = null
  }

  make(recipe, run = this.running, steps = 0) {
    const {depth} = this.recipe
    this.recipe = recipe
    if (recipe.depth !== depth) this.setLook({...this.look, layers: this.look.layers >= depth ? ALL : this.look.layers}, true)
    this.switches.show(recipe)
    this.own.hidden = recipe.data !== "own"
    this.writeRecipe()
    this.tag++
    this.byHand = false
    if (!steps) writeState({step: null})
    else $("clock").textContent = `training ${steps} steps…`
    this.selected = this.held = null
    this.curves.forEach(curve => curve.clear())
    this.setRunning(run, false)
    $("message").hidden = true
    const {empty} = this
    this.empty = recipe.data === "own" && new Set(recipe.points.map(p => p[2])).size < 2
    $("own-hint").hidden = !this.empty
    if (this.view && this.empty !== empty) this.setLook(this.look)
    if (this.empty) {
      this.pause()
      $("clock").textContent = ""
      this.drawOnly()
      return
    }
    this.channel.order("make", {recipe, tag: this.tag, run, steps, until: this.story?.until ?? null})
    this.channel.order("speed", {steps: this.speed})
  }

  // ---- frames

  take(message) {
    if (message.file) return takeHome.save(message.file, message.bytes)
    if (message.tag !== this.tag || !message.vertices) { if (message.vertices) this.channel.order("ack"); return }
    const first = !this.frame || this.frame.tag !== message.tag
    this.frame = message
    this.keepMoment(message, first)
    if (this.view) this.showMoment(message)
    else this.start(message)
    if (first) {
      this.diagram.layOut(this.recipe.depth, this.recipe.width, message.values.length / (message.vertices.length / 2))
      this.select(null)
    }
    this.diagram.show(message)
    this.showFrame()
    requestAnimationFrame(() => { // drawn: the next may come
      this.channel.order("ack")
      const now = performance.now()
      this.frames.push(now)
      while (this.frames[0] < now - 2000) this.frames.shift()
      this.drawn = (this.drawn ?? 0) + 1
    })
  }

  // Earlier moments: what the film shows, and what a click on a curve goes back to.

  keepMoment(frame, first) {
    if (first) this.moments = []
    if (this.moments.at(-1)?.step === frame.step) this.moments.pop()
    this.moments.push(frame)
    if (this.moments.length > MOST_MOMENTS) this.moments = this.moments.filter((_, i) => i % 2 === 0 || i === this.moments.length - 1)
  }

  tellLegend() { fillLegend($("legend"), this.view, this.look.points ? this.dots().map(p => p[2]) : []) }

  lookBack(step) { // until Play, or anything else that makes a new picture
    if (this.running) this.pause()
    const near = this.moments.reduce((a, b) => Math.abs(b.step - step) < Math.abs(a.step - step) ? b : a)
    this.showMoment(near)
    $("clock").textContent = near === this.frame ? `step ${near.step}` : `step ${near.step} of ${this.frame.step}: looking back`
    this.tellLegend()
    this.curves.forEach(curve => curve.mark(near === this.frame ? null : near.step))
  }

  showMoment(frame) { // an earlier one may not have what tiles are colored by now
    const {color} = this.look
    this.view.colored = color === "folds" || frame.quantities.some(q => q.name === color) ? color : "class"
    this.view.setData(frame)
    this.points = frame.points
  }

  start(frame) {
    this.points = frame.points
    $("starting").hidden = true
    const view = this.view = new TilingView($("tiles"), frame)
    view.onhover = (tile, x, y) => { this.pointer = [tile, x, y]; fillList($("tile"), tileRows(view, tile, x, y)) }
    view.ontap = (tile, x, y, event) => this.tap(tile, x, y, event)
    view.grab = (px, py) => this.grab(px, py)
    view.onkey = name => this.moveByKey(name)
    view.bold = this.bold ?? 1
    view.drawings.push((pen, seen) => this.drawEmpty(pen, seen), (pen, seen) => this.drawUnit(pen, seen), (pen, seen) => this.drawPoints(pen, seen))
    view.onhover(-1, 0, 0)
    view.show.anchors = false
    this.setLook(this.look)
    this.lookWhereWanted()
    view.onview = () => { clearTimeout(this.looking); this.looking = setTimeout(() => writeState({look: lookText(view)}), 300) }
  }

  showFrame() {
    if (this.empty) return // it is no network of these points
    if (this.running && this.frame.step === this.story?.until && !this.frame.running) this.setRunning(false, false) // what the story is about is reached
    if (!this.running) this.writeStep()
    this.curves.forEach(curve => { curve.add(this.frame.step, this.frame.measures); curve.mark(null) })
    if (this.telling) return // words a few times a second: nobody reads faster, and the browser lays them out anew
    this.telling = setTimeout(() => { this.telling = 0; this.tellFrame() }, this.running ? 150 : 0)
  }

  tellFrame() {
    const {frame} = this, rate = this.frames.length > 5 ? (this.frames.length - 1) / ((this.frames.at(-1) - this.frames[0]) / 1000) : 0
    $("clock").textContent = `step ${frame.step} · ${frame.measures.tiles.toLocaleString("en")} tiles${this.running && rate ? ` · ${rate.toFixed(0)} pictures a second` : ""}`
    $("held").hidden = !frame.held && !frame.within && !frame.dead
    $("held").textContent = [frame.dead ? "The network is constant on all data: no unit is left that learns. Choose a smaller rate and start again." : "", frame.held ? "statistics held at their mean over the data: an approximation" : "", frame.within ? within(frame.within) : ""].filter(Boolean).join("; ")
    this.tellLegend()
    this.showWeights(frame.selected)
    if (this.view.pointer && this.pointer) fillList($("tile"), tileRows(this.view, ...this.pointer))
  }

  drawOnly() { // own points before there are enough of them for a network
    if (!this.view) { this.pending = true; this.channel.order("make", {recipe: {...this.limits.defaults, depth: 1, width: 1}, tag: this.tag}) }
    this.points = new Float32Array(this.recipe.points.flatMap(p => p.slice(0, 2)))
    if (this.frame) { this.frame.points = this.points; this.frame.classes = new Uint8Array(this.recipe.points.map(p => p[2])) }
    this.view?.changed()
  }

  drawEmpty(pen, view) { // the plain square: what lies below is no network of these points
    if (!this.empty) return
    const [x0, y0, x1, y1] = [this.frame.domain[0], this.frame.domain[1], this.frame.domain[4], this.frame.domain[5]], [left, low] = view.toScreen(x0, y0), [right, high] = view.toScreen(x1, y1)
    pen.fillStyle = `rgb(${view.ground.map(v => Math.round(255 * v)).join(",")})`
    pen.fillRect(0, 0, view.width, view.height)
    pen.strokeStyle = "#888"
    pen.lineWidth = 1
    pen.strokeRect(left, high, right - left, low - high)
  }

  drawPoints(pen, view) {
    if (this.look.points) for (const [x, y, label] of this.dots()) view.dot(pen, x, y, 4, classColor(label), label)
    if (this.look.points && this.held !== null && this.held !== undefined && this.held < this.points.length / 2) {
      pen.beginPath()
      pen.arc(...view.toScreen(this.points[2 * this.held], this.points[2 * this.held + 1]), 11 * view.bold, 0, 2 * Math.PI)
      pen.strokeStyle = "#ff9f1c"; pen.lineWidth = 3; pen.stroke()
    }
  }

  dots() { // data as [x, y, class]
    if (this.recipe.data === "own") return this.recipe.points
    return Array.from(this.frame.classes, (label, i) => [this.points[2 * i], this.points[2 * i + 1], label])
  }

  drawUnit(pen, view) { // every wall that the chosen unit made
    if (!this.selected) return
    const {corner_cuts: cuts, cut_layers: layers, cut_units: units, offsets, corners, vertices} = this.frame, [layer, unit] = this.selected
    pen.beginPath()
    for (let t = 0; t < view.count; t++) for (let c = offsets[t]; c < offsets[t + 1]; c++) {
      if (units[cuts[c]] !== unit || layers[cuts[c]] !== layer) continue
      const a = 2 * corners[c], b = 2 * corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
      pen.moveTo(...view.toScreen(vertices[a], vertices[a + 1]))
      pen.lineTo(...view.toScreen(vertices[b], vertices[b + 1]))
    }
    pen.strokeStyle = "#000"; pen.lineWidth = 5; pen.stroke()
    pen.strokeStyle = "#ff9f1c"; pen.lineWidth = 3; pen.stroke()
  }

  // ---- by hand

  nearestPoint(px, py) {
    const points = this.recipe.data === "own" ? this.recipe.points.flatMap(p => [p[0], p[1]]) : this.points
    let best = GRIP, found = -1
    for (let i = 0; i < points.length / 2; i++) {
      const [x, y] = this.view.toScreen(points[2 * i], points[2 * i + 1]), d = Math.hypot(x - px, y - py)
      if (d < best) { best = d; found = i }
    }
    return found
  }

  nearestUnit(px, py) { // of the fold by whose wall the pointer is: [layer, unit, knot, pixels away] or null
    const {view, frame} = this, {offsets, corners, vertices, corner_cuts: cuts} = frame
    const [x, y] = view.toSlice(px, py), near = new Set([[0, 0], [GRIP, 0], [-GRIP, 0], [0, GRIP], [0, -GRIP]].map(([dx, dy]) => view.find(x + dx / view.scale, y + dy / view.scale)))
    let best = GRIP, found = -1
    for (const t of near) for (let c = offsets[t]; t >= 0 && c < offsets[t + 1]; c++) {
      if (cuts[c] < 0) continue
      const a = 2 * corners[c], b = 2 * corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
      const d = segmentDistance(px, py, ...view.toScreen(vertices[a], vertices[a + 1]), ...view.toScreen(vertices[b], vertices[b + 1]))
      if (d < best) { best = d; found = cuts[c] }
    }
    if (found < 0) return null
    return [frame.cut_layers[found], frame.cut_units[found], frame.cut_knots[found], best]
  }

  grab(px, py) {
    const point = this.look.points ? this.nearestPoint(px, py) : -1
    if (point >= 0) {
      return {move: (x, y) => this.movePoint(point, this.view.toSlice(x, y)), end: () => { if (this.recipe.data === "own") writeState({points: formatPoints(this.recipe.points)}) }}
    }
    const unit = this.frame && !this.empty ? this.nearestUnit(px, py) : null, chosen = unit && String(unit.slice(0, 2)) === String(this.selected)
    if (!unit || (!chosen && (unit[3] > NEAR_GRIP || this.view.count > CROWDED || this.recipe.data === "own"))) return null
    let moved = false
    const move = (x, y) => {
      if (!moved && !chosen) this.select(unit)
      moved = true
      this.moveFold(unit, ...this.view.toSlice(x, y))
    }
    return {move, end: () => { if (!moved) this.select(unit) }}
  }

  moveFold([layer, unit, knot], x, y) {
    this.byHand = true
    this.channel.order("fold", {layer, unit, knot, x, y})
  }

  // Arrow keys move the point that N chose, or the fold of the chosen unit; Escape leaves both.
  moveByKey(name) {
    const step = ARROWS[name]?.map(v => v * 8 / this.view.scale), count = this.points.length / 2
    if (name === "n" || name === "N") this.held = ((this.held ?? -1) + 1) % count
    else if (name === "Escape") { this.held = null; this.select(null) }
    else if (step && this.held !== null && this.held !== undefined) this.movePoint(this.held, [0, 1].map(k => this.points[2 * this.held + k] + step[k]))
    else if (step && this.selected) {
      const wall = this.wallOf(this.selected)
      if (wall) this.moveFold(wall, wall[3] + step[0], wall[4] + step[1])
    } else return false
    this.view.changed()
    return true
  }

  wallOf([layer, unit]) { // a wall of a unit: [layer, unit, knot, x, y] with its middle
    const {corner_cuts: cuts, cut_layers: layers, cut_units: units, cut_knots: knots, offsets, corners, vertices} = this.frame
    const c = cuts.findIndex(cut => cut >= 0 && layers[cut] === layer && units[cut] === unit)
    if (c < 0) return null
    const t = offsets.findLastIndex(o => o <= c), a = 2 * corners[c], b = 2 * corners[c + 1 < offsets[t + 1] ? c + 1 : offsets[t]]
    return [layer, unit, knots[cuts[c]], (vertices[a] + vertices[b]) / 2, (vertices[a + 1] + vertices[b + 1]) / 2]
  }

  movePoint(point, place) {
    const at = place.map(v => Math.min(2.6, Math.max(-2.6, v)))
    if (this.recipe.data === "own") this.recipe.points[point] = [...at, this.recipe.points[point][2]]
    else this.points.set(at, 2 * point)
    this.byHand = true
    this.channel.order("move", {point, x: at[0], y: at[1]})
    this.view.changed()
  }

  tap(tile, x, y) {
    const [px, py] = this.view.toScreen(x, y)
    if (this.recipe.data === "own" && this.pen >= 0) {
      this.recipe = {...this.recipe, points: [...this.recipe.points, [x, y, this.pen]]}
      return this.make(this.recipe)
    }
    this.select(this.nearestUnit(px, py))
  }

  select(unit) {
    this.selected = unit = unit?.slice(0, 2) ?? null
    this.channel.order("select", {unit})
    this.diagram.select(unit)
    if (!unit) this.weights.replaceChildren(element("p", {className: "muted small", textContent: "Click a fold, or a unit above: then drag its fold, or its weights."}))
    this.view?.changed()
  }

  showWeights(chosen) {
    if (!chosen || !this.selected || String([chosen.layer, chosen.unit]) !== String(this.selected)) return
    const key = `${this.tag} ${this.selected}`, values = [...chosen.weights, ...(chosen.offset === null ? [] : [chosen.offset])]
    if (this.weights.dataset.key !== key) {
      this.weights.dataset.key = key
      this.weights.replaceChildren(...values.map((_, i) => {
        const source = i < chosen.weights.length ? i : -1, name = source < 0 ? "offset" : chosen.layer === 0 ? ["from x", "from y"][i] : `from ${i + 1}`
        const input = element("input", {type: "range", min: -3, max: 3, step: 0.01, id: `weight-${i}`}), out = element("output", {ariaLive: "off"})
        input.oninput = () => { this.byHand = true; this.channel.order("weight", {layer: chosen.layer, unit: chosen.unit, source, value: Number(input.value)}) }
        return element("div", {className: "field"}, element("label", {htmlFor: input.id, textContent: name}), element("div", {className: "with-value"}, input, out))
      }))
    }
    this.weights.querySelectorAll("input").forEach((input, i) => {
      if (input !== document.activeElement || this.running) input.value = values[i]
      input.nextElementSibling.textContent = values[i].toFixed(2)
    })
  }

  addOwnTools() {
    const file = element("input", {type: "file", accept: ".csv,text/csv", hidden: true}), open = element("button", {type: "button", textContent: "CSV…"}), clear = element("button", {type: "button", textContent: "Clear"})
    const pens = [0, 1, 2].map(label => {
      const button = element("button", {type: "button", textContent: "●", title: `set points of class ${label}`})
      button.setAttribute("aria-label", `set points of class ${label}`)
      button.style.color = classColor(label)
      button.onclick = () => { this.pen = label; pens.forEach((each, i) => each.setAttribute("aria-pressed", String(i === label))) }
      return button
    })
    open.onclick = () => file.click()
    clear.onclick = () => this.make({...this.recipe, points: []}, false)
    file.onchange = async () => {
      const text = await file.files[0].text()
      file.value = ""
      try { this.make({...this.recipe, points: readCsv(text)}) } catch (error) { this.complain(error.message) }
    }
    this.own = element("div", {className: "own", hidden: true}, ...pens, open, clear, file)
    $("switches").querySelector(".sets").after(this.own)
    pens[0].click()
  }

  // ---- looks and transport

  addLooks() {
    const color = element("select", {id: "look-color"}, ...COLORS.map(([value, text]) => new Option(text, value))), out = element("output")
    const layers = element("input", {type: "range", min: 1, max: 6, step: 1, id: "look-layers"})
    color.onchange = () => this.setLook({...this.look, color: color.value}, true)
    layers.oninput = () => this.setLook({...this.look, layers: Number(layers.value)}, true)
    const boxes = LAYERS.map(([name, text]) => {
      const box = element("input", {type: "checkbox"})
      box.onchange = () => this.setLook({...this.look, [name]: box.checked}, true)
      return [name, box, element("label", {}, box, text)]
    })
    const hatch = element("input", {type: "checkbox"}), hatching = element("label", {title: "hatch classes: told apart in gray"}, hatch, HATCH)
    hatch.onchange = () => this.setLook({...this.look, patterns: hatch.checked}, true)
    const home = element("button", {type: "button", textContent: "Show all"})
    home.onclick = () => this.view?.home()
    $("looks").append(element("label", {}, "color", color), element("label", {}, "folds to layer", layers, out), ...boxes.map(([,, label]) => label), hatching, home)
    this.showLook = look => {
      color.value = look.color
      layers.max = this.recipe.depth
      layers.value = Math.min(look.layers, this.recipe.depth)
      out.textContent = layers.value
      hatch.checked = look.patterns
      hatching.hidden = look.color !== "class"
      for (const [name, box, label] of boxes) {
        box.checked = look[name]
        label.hidden = name === "walls" && look.color === "folds" // which are the walls
      }
    }
  }

  setLook(look, keep = false) {
    this.look = look
    this.showLook(look)
    if (keep) {
      const start = this.plainLook(), all = look.layers >= this.recipe.depth
      const hidden = LAYERS.map(([name]) => name).filter(name => !look[name])
      writeState({color: look.color === start.color ? null : look.color, layers: look.layers === start.layers || (all && start.layers >= this.recipe.depth) ? null : look.layers, hide: hidden.join(",") === (start.hide ?? "") ? null : hidden.join(",") || "nothing", patterns: look.patterns ? 1 : null})
    }
    this.channel.order("color", {color: look.color})
    if (!this.view) return
    this.view.show.folds = look.walls
    this.view.show.boundary = look.boundary
    this.view.patterns = look.patterns
    this.view.layers = look.layers >= this.recipe.depth ? 255 : look.layers
    this.view.colorBy(look.color)
    if (this.empty) $("legend").replaceChildren()
    else this.tellLegend()
  }

  setSpeed(steps) {
    this.speed = SPEEDS.includes(steps) ? steps : 1
    $("speed").value = this.speed
    this.channel.order("speed", {steps: this.speed})
  }

  setRunning(running, tell = true) {
    this.running = running
    $("play").textContent = running ? "Pause" : "Play"
    $("play").setAttribute("aria-pressed", String(running))
    if (tell) this.channel.order("run", {running})
    if (!running && this.frame) $("said").textContent = `Paused at step ${this.frame.step}: ${this.frame.measures.tiles} tiles, loss ${number(this.frame.measures.loss)}` // for those who hear: at rest alone
    if (!running) this.frames = []
    else writeState({step: null})
  }

  pause() { this.setRunning(false) }

  complain(text) {
    this.setRunning(false, false)
    $("message").textContent = text
    $("message").hidden = false
  }

  listen() {
    for (const steps of SPEEDS) $("speed").append(new Option(`${steps} step${steps > 1 ? "s" : ""}`, steps))
    $("speed").onchange = () => { this.setSpeed(Number($("speed").value)); writeState({speed: this.speed === (this.story?.speed ?? 1) ? null : this.speed}) }
    $("play").onclick = () => this.setRunning(!this.running)
    $("step").onclick = () => { this.pause(); this.channel.order("step") }
    $("reset").onclick = () => this.make(this.recipe, false)
  }
}

const within = ({tolerance, bound, deviation, basis}) => `within ${tolerance} of the smooth network: ${basis === "bound" ? `proven (${Number(bound.toPrecision(2))})` : `as measured (${Number(deviation.toPrecision(2))})`}`
const pick = (from, names) => Object.fromEntries(names.filter(name => name in from).map(name => [name, from[name]]))

function segmentDistance(px, py, ax, ay, bx, by) {
  const dx = bx - ax, dy = by - ay, s = Math.min(1, Math.max(0, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)))
  return Math.hypot(px - ax - s * dx, py - ay - s * dy)
}

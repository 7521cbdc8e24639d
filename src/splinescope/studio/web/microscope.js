// The microscope: networks of one's own on a slice; zooming tiles the window anew, two can be looked at side by side.

import {sharedScale} from "../viewer/colors.js"
import {tileRows} from "../viewer/panel.js"
import {TilingView} from "../viewer/viewer.js"
import {element, fillLegend, fillList, number} from "../viewer/words.js"
import {token} from "./channel.js"
import {Curve} from "./chart.js"
import {brightnessOf, imageCanvas} from "./inputs.js"
import {middle, readEnds, showRanges, startRanges, tooLong} from "./ranges.js"
import {Space} from "./space.js"
import {lookText, lookThere, writeState} from "./state.js"
import {MOST_MOMENTS, takeHome} from "./take.js"

const $ = id => document.getElementById(id)
const LAYERS = [["walls", "walls"], ["boundary", "decision boundary"]]
const SETTLED = 350 // ms without movement after which the window is tiled anew
const COLORS = [["slope", "slope norm"], ["class", "class"], ["area", "area"], ["depth", "depth of walls"], ["active", "active units"], ["sides", "corners"], ["folds", "folds by layer"]]

class Pane { // one network's picture
  constructor(page, name) { Object.assign(this, {page, name, view: null, entry: null}) }

  show(frame, {name, slice, moment = null}) { // what it is a picture of
    const of = JSON.stringify([name, slice, moment])
    if (of !== this.of) this.forget()
    Object.assign(this, {of, place: JSON.stringify([name, slice]), picture: frame.id})
    this.cover()
    if (frame.space) return this.page.enterSpace(frame)
    if (this.name === "a") this.page.leaveSpace()
    $("empty").hidden = true
    this.frame = frame
    if (!this.view) {
      this.view = new TilingView($(`pane-${this.name}`), frame)
      this.view.bold = this.page.bold
      this.view.onhover = (tile, x, y) => this.page.hover(this, tile, x, y)
      this.view.ontap = (tile, x, y) => this.page.tap(this, tile, x, y)
      this.view.onview = view => this.page.moved(this, view)
      if (this.page.wantedLook && lookThere(this.view, this.page.wantedLook)) this.page.wantedLook = null
    } else {
      const fresh = !frame.window && JSON.stringify(this.world) !== JSON.stringify(frame.domain)
      this.view.setData(frame)
      if (fresh) this.view.home()
    }
    if (!frame.window) this.world = frame.domain
    this.page.setLook(this.page.look)
  }

  expect(name, slice, text = `Tiling ${name}…`) { // from here on another picture is stale
    this.wanted = JSON.stringify([name, slice])
    this.cover(text)
  }

  get stale() { return this.place !== this.wanted }

  cover(text = null) { // a stale picture is neither read nor pointed at
    const cover = $(`cover-${this.name}`)
    cover.hidden = !this.stale
    if (text !== null) cover.textContent = text
    if (!this.stale) return
    this.forget()
    if (this.name !== "a") return
    fillList($("notes"), [])
    if (this.page.space.view) this.page.leaveSpace()
  }

  forget() { // what was pointed at and clicked was told of another picture
    this.view?.hover(-1, -1)
    if (this.page.tapped !== this) return
    this.page.tapped = null
    $("details").replaceChildren()
  }

  async tile(window = null) {
    if (!this.entry?.name) return
    this.job?.cancel()
    const message = {name: this.entry.name, pane: this.name, slice: this.page.slice, window}
    this.expect(message.name, message.slice)
    const job = this.job = this.page.channel.ask("tile", message, (share, tiles) => this.page.busy(share, tiles))
    try {
      const frame = await job
      if (job !== this.job) return
      this.shown = {name: message.name, slice: message.slice, window}
      await this.show(frame, message)
      this.page.settled(this, frame)
    } catch (error) {
      if (job !== this.job) return
      this.cover(`${message.name} is not tiled on this slice.`)
      this.page.settled(this, null, error)
    }
  }

  retile() { // the visible window, if it shows far less, or other parts, than what was tiled
    if (this.page.space.view || !this.view || this.stale || !this.entry?.tiles || this.page.story) return
    const {view} = this, [x0, y0] = view.toSlice(0, view.height), [x1, y1] = view.toSlice(view.width, 0)
    const xs = this.frame.domain.filter((_, i) => i % 2 === 0), ys = this.frame.domain.filter((_, i) => i % 2)
    const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)]
    const inside = x0 >= left && x1 <= right && y0 >= low && y1 <= high
    const close = (x1 - x0) * (y1 - y0) < 0.12 * (right - left) * (high - low)
    const covers = x0 <= left && x1 >= right && y0 <= low && y1 >= high
    if (inside && !close) return
    if (covers && !this.frame.window) return
    const world = this.world, wx = world.filter((_, i) => i % 2 === 0), wy = world.filter((_, i) => i % 2)
    if (covers && x0 <= Math.min(...wx) && x1 >= Math.max(...wx) && y0 <= Math.min(...wy) && y1 >= Math.max(...wy)) return this.tile()
    const mx = 0.15 * (x1 - x0), my = 0.15 * (y1 - y0)
    this.tile([x0 - mx, y0 - my, x1 + mx, y1 + my])
  }
}

export class MicroscopePage {
  constructor(channel) {
    this.space = new Space($("space"))
    Object.assign(this, {channel, panes: {a: new Pane(this, "a"), b: new Pane(this, "b")}, rows: null, look: {color: "slope", walls: true, boundary: true}, story: null})
    this.addLooks()
    this.listen()
    const home = {
      name: () => "microscope", title: () => this.panes.a.shown.name,
      fetch: async () => { const got = await channel.ask("take", {pane: "a", picture: this.panes.a.picture}); takeHome.save(got.file, got.bytes) },
      code: async () => (await channel.ask("code", {pane: "a", picture: this.panes.a.picture, ...this.look, color: this.space.view?.colored ?? this.look.color, ...this.panes.a.shown})).code,
    }
    const {a} = this.panes
    takeHome($("home-microscope"), {view: () => a.view, points: () => pairs(a.view.data.anchors), moments: () => this.moments(), show: frame => { a.view.setData(frame); this.setLook(this.look) }, ...home})
    takeHome($("home-space"), {view: () => this.space.view, plane: false, ...home})
  }

  async open(state) {
    await this.refresh()
    const wanted = state.file ?? (this.panes.a.entry ? null : this.entries.find(e => !["data"].includes(e.kind) && e.name !== "example: digits")?.name)
    const hidden = (state.hide ?? "").split(",")
    this.setLook({color: state.color ?? this.look.color, ...Object.fromEntries(LAYERS.map(([name]) => [name, !hidden.includes(name)]))})
    this.wantedLook = state.look ?? null
    this.wantedStep = "step" in state ? Number(state.step) : null
    if (state.rows) Object.assign(this, {rows: readRows(state.rows), rowsGiven: true})
    for (const [field, id] of [["kind", "slice-kind"], ["low", "low"], ["high", "high"], ["half", "half"], ["seed", "slice-seed"], ["x", "axis-x"], ["y", "axis-y"], ["z", "axis-z"]]) if (state[field]) $(id).value = state[field]
    let at = null
    try { at = state.at ? JSON.parse(state.at) : null } catch { return this.complain("What the address says of the slice (at=…) cannot be read.") }
    if (wanted) await this.choose(wanted, state, at)
  }

  async refresh() {
    const answer = await this.channel.ask("entries")
    this.entries = answer.entries.filter(entry => entry.kind !== "data")
    $("entries").replaceChildren(...this.entries.map(entry => {
      const button = element("button", {type: "button"}, element("span", {textContent: entry.name}), element("small", {textContent: entry.kind}))
      button.onclick = () => this.choose(entry.name)
      button.setAttribute("aria-pressed", String(entry.name === this.panes.a.entry?.name))
      return button
    }))
    const beside = $("beside").value
    $("beside").replaceChildren(new Option("nothing", ""), ...this.entries.filter(e => ["network", "weights"].includes(e.kind)).map(e => new Option(e.name, e.name)))
    $("beside").value = beside
  }

  async choose(name, address = null, at = null) { // address: what it says of the slice; null where one was chosen by hand
    const pane = this.panes.a, turn = this.turn = (this.turn ?? 0) + 1, before = pane.wanted // a later choice ends this one
    this.complain(null)
    this.story = null
    $("home-microscope").classList.remove("has-film")
    $("time").hidden = true
    $("lens-curves").replaceChildren()
    pane.job?.cancel()
    pane.job = null
    pane.expect(name, null, `Opening ${name}…`)
    try {
      const entry = await this.channel.ask("open", {name})
      if (turn !== this.turn) return
      const switched = !address && String(pane.entry?.shape) !== String(entry.shape)
      pane.entry = entry
      await this.loadExamples(name, switched)
      if (turn !== this.turn) return
    } catch (error) {
      if (turn !== this.turn) return
      pane.wanted = before
      pane.cover(`${name} could not be opened.`)
      return this.complain(error.message)
    }
    const {entry} = pane, given = address && ("low" in address || "x" in address)
    ;[...$("entries").children].forEach((button, i) => {
      button.setAttribute("aria-pressed", String(this.entries[i].name === name))
      if (this.entries[i].name === name) button.scrollIntoView({block: "nearest"})
    })
    $("about").textContent = entry.tiles ? `inputs ${entry.shape.join(" × ")}, ${entry.outputs} output${entry.outputs === 1 ? "" : "s"}${entry.ending ? ` before ${entry.ending}` : ""}; ${entry.sites.reduce((sum, s) => sum + s[2], 0).toLocaleString("en")} units at ${entry.sites.length} site${entry.sites.length === 1 ? "" : "s"}` : `inputs ${entry.shape.join(" × ")}; a finished ${entry.lives ? "timeline" : "tiling"}`
    $("slice-form").hidden = !entry.tiles
    $("follow").hidden = !entry.lives || !entry.tiles
    if (address) $("beside").value = address.beside ?? ""
    if (!given) startRanges(entry.ranges)
    this.readSlice(at)
    writeState({view: "microscope", file: name})
    if (entry.lives && (!entry.tiles || this.wantedStep !== null)) return this.follow()
    await this.run()
  }

  async loadExamples(name, switched = false) { // switched: from inputs of another shape
    const {rows, names, count, start, image, pixels, from, unread, range, columns, classes} = await this.channel.ask("examples", {name})
    const other = JSON.stringify([from, count]) !== this.examplesAre // other rows: numbers of before mean nothing there
    this.examplesAre = JSON.stringify([from, count])
    if (!this.rows || (other && !this.rowsGiven)) this.rows = start
    this.rowsGiven = false
    Object.assign(this, {examplesFrom: from, classesFrom: classes, columns, count})
    this.brightness = range
    $("unread").textContent = unread.join(" ")
    const size = image ? image[0] * image[1] * image[2] : 0
    this.offered = rows
    $("examples").replaceChildren(...names.map((label, i) => {
      const button = element("button", {type: "button", title: `example ${rows[i]}: ${label}`})
      button.setAttribute("aria-label", `example ${rows[i]}: ${label}`)
      button.append(pixels.length ? imageCanvas(element("canvas"), image, pixels.subarray(i * size, (i + 1) * size), 1, 0) : label)
      button.onclick = () => { this.rows = [...this.rows.slice(1), rows[i]]; this.showRows() }
      return button
    }))
    const through = $("slice-kind").querySelector("[value=through]")
    through.disabled = names.length < 3
    if (names.length < 3 && $("slice-kind").value === "through") $("slice-kind").value = "axes"
    if (switched && image && names.length >= 3) $("slice-kind").value = "through" // most planes hold no image
    this.showRows()
    this.showFields()
  }

  showRows() {
    [...$("examples").children].forEach((button, i) => button.setAttribute("aria-pressed", String(this.rows?.includes(this.offered[i]) ?? false)))
    $("rows").value = this.rows?.join(", ") ?? ""
    $("chosen").textContent = this.offered?.length && $("slice-kind").value === "through" ? `${this.count.toLocaleString("en")} rows of ${this.examplesFrom ?? "the data that come with splinescope"}${this.offered.length < this.count ? `, ${this.offered.length} of them above` : ""}${this.classesFrom ? `; classes: ${this.classesFrom}` : ""}` : ""
  }

  showFields() {
    const kind = $("slice-kind").value
    for (const field of document.querySelectorAll("#slice-form [data-for]")) field.hidden = !field.dataset.for.split(" ").includes(kind)
    $("examples").hidden = kind !== "through"
    $("axis-names").textContent = ["axis-x", "axis-y", ...(kind === "space" ? ["axis-z"] : [])].map(id => this.columns?.[$(id).value]).filter(Boolean).join(" × ")
    this.showRows()
  }

  readSlice(at = null) {
    const kind = $("slice-kind").value, value = id => Number($(id).value), ends = id => readEnds($(id).value)
    this.slice = kind === "through" ? {kind, rows: this.rows} : kind === "axes" || kind === "space" ? {kind: "axes", axes: ["axis-x", "axis-y", "axis-z"].slice(0, kind === "axes" ? 2 : 3).map(value), low: ends("low"), high: ends("high"), ...(this.panes.a.entry?.ranges.length ? {center: middle(this.panes.a.entry.ranges)} : {})} : {kind, half: value("half"), seed: value("slice-seed")}
    if (at) this.slice = at
    writeState({kind, rows: kind === "through" ? this.rows.join(",") : null, ...Object.fromEntries([["low", "low"], ["high", "high"], ["x", "axis-x"], ["y", "axis-y"]].map(([name, id]) => [name, kind === "axes" || kind === "space" ? $(id).value : null])), z: kind === "space" ? $("axis-z").value : null, half: kind === "random" ? $("half").value : null, seed: kind === "random" ? $("slice-seed").value : null,
      beside: $("beside").value || null, at: at ? JSON.stringify(at) : null})
  }

  async run() {
    const turn = this.runs = (this.runs ?? 0) + 1
    this.complain(null)
    this.story = null
    $("home-microscope").classList.remove("has-film")
    writeState({step: null})
    $("time").hidden = true
    const beside = this.slice.axes?.length === 3 ? "" : $("beside").value // a space is seen alone
    $("second").hidden = !beside
    this.busy(0, 0)
    const jobs = [this.panes.a.tile()]
    if (beside) {
      this.panes.b.expect(beside, null, `Opening ${beside}…`)
      try {
        const entry = await this.channel.ask("open", {name: beside})
        if (turn !== this.runs) return
        this.panes.b.entry = entry
        jobs.push(this.panes.b.tile())
      } catch (error) {
        if (turn !== this.runs) return
        this.panes.b.entry = null
        this.panes.b.cover(`${beside} could not be opened.`)
        this.complain(error.message, this.panes.b)
      }
    } else { this.panes.b.forget(); this.panes.b.entry = null }
    await Promise.all(jobs)
    for (const name of ["a", "b"]) { $(`name-${name}`).hidden = !beside; $(`name-${name}`).textContent = this.panes[name].entry?.name ?? "" }
    $("busy").hidden = true
  }

  async follow() { // one slice at every checkpoint
    this.busy(0, 0)
    this.readSlice()
    this.panes.a.expect(this.panes.a.entry.name, this.slice)
    const job = this.panes.a.job = this.channel.ask("timeline", {name: this.panes.a.entry.name, pane: "a", slice: this.slice}, share => this.busy(share, 0))
    let story = null, failure = null
    try { story = await job } catch (error) { failure = error }
    if (job !== this.panes.a.job) return // another network was chosen in between
    this.story = story
    $("home-microscope").classList.toggle("has-film", Boolean(story))
    if (failure) {
      this.panes.a.cover(`${this.panes.a.entry.name} is not tiled on this slice.`)
      return this.settled(this.panes.a, null, failure)
    }
    $("busy").hidden = true
    $("time").hidden = false
    $("moment").max = this.story.steps.length - 1
    $("moment").value = this.wantedStep === null ? this.story.steps.length - 1 : Math.max(0, this.story.steps.findLastIndex(step => step <= this.wantedStep))
    this.wantedStep = null
    const {measures, steps} = this.story, curves = []
    $("lens-curves").replaceChildren()
    const curve = (title, series) => { if (series.some(([key]) => measures[key]?.some(v => v !== null))) curves.push(new Curve($("lens-curves"), title, series)) }
    curve("tiles", [["tiles", "", "#009e73"]])
    curve("tiles nearby", [["tiles_near_data", "data", "#0072b2"], ["tiles_near_boundary", "boundary", "#cc79a7"]])
    curve("local complexity", Object.keys(measures).filter(k => k.startsWith("complexity/")).map((k, i) => [k, k.slice(11), ["#0072b2", "#e69f00", "#cc79a7"][i % 3]]))
    curve("accuracy", Object.keys(measures).filter(k => k.startsWith("accuracy/")).map(k => [k, "", "#0072b2"]))
    curve("slope at data", [["slope_at_data", "", "#e69f00"]])
    steps.forEach((step, i) => curves.forEach(c => c.add(step, Object.fromEntries(Object.entries(measures).map(([k, v]) => [k, v[i]])))))
    await this.moment()
  }

  async moments() { // the checkpoints, at most as many as a film has
    const all = this.story.steps.map((step, index) => ({step, index})), each = Math.ceil(all.length / MOST_MOMENTS), found = []
    for (const {step, index} of all.filter(({index}) => index % each === 0 || index === all.length - 1)) {
      const frame = await this.channel.ask("moment", {pane: "a", name: this.panes.a.entry.name, index, film: true})
      found.push({...frame, moment: `step ${step}`})
    }
    return found
  }

  async moment() {
    const index = Number($("moment").value), {story} = this
    $("moment-text").textContent = `step ${this.story.steps[index]}`
    writeState({step: this.story.steps[index]})
    this.wanted = index
    if (this.fetching) return
    this.fetching = true
    try {
      let done = -1
      while (done !== this.wanted && story === this.story) {
        const {entry} = this.panes.a, {slice} = this
        done = this.wanted
        const frame = await this.channel.ask("moment", {pane: "a", name: entry.name, index: done})
        if (story !== this.story) return // another network was chosen in between
        this.panes.a.shown = {name: entry.name, slice, moment: done}
        this.panes.a.show(frame, this.panes.a.shown)
        this.settled(this.panes.a, frame)
      }
    } finally { this.fetching = false }
  }

  // ---- looking

  moved(pane, view) {
    const other = this.panes[pane.name === "a" ? "b" : "a"]
    if (other.view && other.entry && !this.linking) {
      this.linking = true
      other.view.lookAt(view.x, view.y, view.scale)
      this.linking = false
    }
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      writeState({look: lookText(view)})
      Object.values(this.panes).forEach(each => each.entry && each.retile())
    }, SETTLED)
  }

  hover(pane, tile, x, y) {
    const {image, origin, basis} = pane.frame, canvas = $("input"), n = origin.length, values = new Float32Array(n)
    for (let i = 0; i < n; i++) values[i] = origin[i] + x * basis[i] + y * basis[n + i]
    const named = tile >= 0 && !image && this.columns?.length === n ? this.columns.map((name, i) => [name, number(values[i])]) : []
    fillList($("lens-tile"), [...tileRows(pane.view, tile, x, y), ...named])
    canvas.hidden = !image || tile < 0
    if (canvas.hidden) return
    const [low, high] = this.brightness ?? (pane.frame.brightness ??= brightnessOf(pane.frame)), scale = 255 / (high - low || 1)
    imageCanvas(canvas, image, values, scale, -low * scale)
  }

  async tap(pane, tile, x, y) {
    if (tile < 0) return
    const {picture} = pane
    try {
      const all = await this.channel.ask("details", {pane: pane.name, picture, x, y})
      if (picture !== pane.picture || pane.stale) return // another picture came in between
      this.tapped = pane
      const through = element("button", {type: "button", textContent: "A random plane through this point"})
      through.onclick = () => { this.readSlice({kind: "point", of: this.slice, at: [x, y], half: Number($("half").value) || 1, seed: Math.floor(Math.random() * 1000)}); this.run() }
      const rows = (all.slope ?? []).map((row, i) => element("tr", {}, ...[`f${i}`, ...row.map(number), number(all.offset[i])].map(text => element("td", {textContent: text}))))
      $("details").replaceChildren(element("h2", {textContent: `Tile ${all.tile}`}),
        element("p", {textContent: `Walls: ${all.walls.join("; ")}.`}),
        ...("input norm" in all ? [element("p", {textContent: `Slope norm in the whole input space: ${number(all["input norm"])}.`})] : []),
        ...(rows.length ? [element("p", {textContent: "Its map on the plane, A t + c:"}), element("table", {}, element("tr", {}, ...["", "A₁", "A₂", "c"].map(text => element("th", {textContent: text}))), ...rows)] : []),
        ...(pane.entry.tiles ? [through] : []))
    } catch (error) { this.complain(error.message) }
  }

  addLooks() {
    const color = element("select", {id: "lens-color"}, ...COLORS.map(([value, text]) => new Option(text, value)))
    color.onchange = () => { this.setLook({...this.look, color: color.value}); writeState({color: color.value}) }
    const boxes = LAYERS.map(([name, text]) => {
      const box = element("input", {type: "checkbox", checked: true})
      box.onchange = () => { this.setLook({...this.look, [name]: box.checked}); writeState({hide: LAYERS.map(([each]) => each).filter(each => !this.look[each]).join(",") || null}) }
      return [name, box, element("label", {}, box, text)]
    })
    const home = element("button", {type: "button", textContent: "Show all", id: "lens-home"})
    home.onclick = () => this.panes.a.view?.home()
    $("lens-looks").append(element("label", {}, "color", color), ...boxes.map(([,, label]) => label), home)
    this.showLook = look => {
      color.value = look.color
      for (const [name, box, label] of boxes) {
        box.checked = look[name]
        label.hidden = name === "walls" && look.color === "folds" // which are the walls
      }
    }
  }

  setLook(look) {
    this.look = look
    this.showLook(look)
    const views = Object.values(this.panes).filter(pane => pane.view && pane.entry && !pane.stale).map(pane => pane.view)
    const scale = sharedScale(views.map(view => view.data), look.color), deepest = Math.max(...views.map(view => view.ownDeepest))
    for (const view of views) {
      view.show.folds = look.walls
      view.show.boundary = look.boundary
      view.deepest = deepest
      view.colorBy(look.color, scale)
    }
    if (this.panes.a.view) fillLegend($("lens-legend"), this.panes.a.view)
  }

  // ---- work in hand

  busy(share, now) {
    $("busy").hidden = false
    $("progress").value = share
    $("busy-text").textContent = now || "working"
  }

  settled(pane, frame, error = null) {
    $("busy").hidden = true
    if (error) return error.cancelled ? null : this.complain($("beside").value ? `${pane.entry.name}: ${error.message}` : error.message, pane)
    if (pane.name === "a") fillList($("notes"), frame.notes)
    this.complain(frame.incomplete ?? (frame.window || frame.space ? null : tooLong(frame.domain)), pane)
    this.tiled = (this.tiled ?? 0) + 1
  }

  complain(text, of = null) { // of a pane, beside what there is to say of the other; else of all
    if (of) of.complaint = text
    else for (const pane of Object.values(this.panes)) pane.complaint = pane.name === "a" ? text : null
    $("message").textContent = [...new Set(Object.values(this.panes).map(pane => pane.complaint))].filter(Boolean).join(" ")
    $("message").hidden = !$("message").textContent
  }

  enterSpace(frame) {
    $("microscope").classList.add("in-space")
    $("space-home").hidden = false
    return this.space.show(frame)
  }

  leaveSpace() {
    $("microscope").classList.remove("in-space")
    $("space-home").hidden = true
    this.space.hide()
  }

  setBold(times) { // for a screen that is far off
    this.bold = times
    for (const {view} of Object.values(this.panes)) if (view) { view.bold = times; view.changed() }
  }

  retheme() { this.space.view?.takeTheme(); for (const {view} of Object.values(this.panes)) view?.takeTheme() }

  listen() {
    $("run").onclick = () => { this.readSlice(); this.run() }
    $("follow").onclick = () => this.follow()
    $("beside").onchange = () => { this.readSlice(); this.run() }
    $("rows").onchange = () => { this.rows = readRows($("rows").value); this.showRows() }
    $("cancel").onclick = () => Object.values(this.panes).forEach(pane => pane.job?.cancel())
    $("slice-kind").onchange = () => { this.showFields(); showRanges(this.panes.a.entry?.ranges ?? []) }
    for (const id of ["axis-x", "axis-y", "axis-z"]) $(id).onchange = () => { this.showFields(); showRanges(this.panes.a.entry?.ranges ?? []) }
    $("moment").oninput = () => this.moment()
    $("open-file").onclick = () => $("file").click()
    $("file").onchange = () => { const [file] = $("file").files; $("file").value = ""; if (file) this.upload(file) }
    $("microscope").addEventListener("dragover", event => event.preventDefault())
    $("microscope").addEventListener("drop", event => { event.preventDefault(); if (event.dataTransfer.files[0]) this.upload(event.dataTransfer.files[0]) })
  }

  async upload(file) {
    const answer = await fetch(`/upload?name=${encodeURIComponent(file.name)}`, {method: "POST", body: file, headers: {Authorization: `Bearer ${token}`}})
    const text = await answer.text()
    if (!answer.ok) return this.complain(text)
    await this.refresh()
    if (this.entries.some(entry => entry.name === text)) return this.choose(text)
    if (!this.panes.a.entry) return this.complain(`${file.name} holds data: open a network that takes it, too.`)
    await this.loadExamples(this.panes.a.entry.name) // data: rows to lay slices through
    const unread = $("unread").textContent
    this.complain(this.examplesFrom === text ? null : unread.includes(text) ? unread : `Rows of ${file.name} do not fit this network, which takes ${this.panes.a.entry.shape.join(" × ")} numbers.`)
  }
}

const readRows = text => text.split(",").map(part => part.trim() === "" || Number.isNaN(Number(part)) ? part.trim() : Number(part)) // what is no number is refused by its name

const pairs = list => Array.from({length: list.length / 2}, (_, i) => [list[2 * i], list[2 * i + 1], null])

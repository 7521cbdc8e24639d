// Draws a 3-D tiling in WebGL2: orbit, zoom, a cutting plane, cells pulled apart, surfaces, hover and tap.
//
//   const view = new SpaceView(element, data);  view.setData(next)
//
// data: what `solid.js` needs, and {title, notes, quantities [{name, label, log, low, high, categories, values[K]}],
//       numbers (tile numbers where tiles were left out, else null), outline Uint32 pairs into domain, surface (the decision
//       boundary: {vertices, offsets, corners, tiles}), points Float64Array[3n], labels (a class per point, or empty)}
//
// Seen from outside, cells that touch hide each other: then only the domain's surface and the plane's section are drawn,
// whatever the number of cells. Pulled apart, all walls are seen; from `most` cells on only the largest are drawn.

import {Camera} from "./camera.js"
import {colorTable, levelsOf, pointColor, rgbOf, themeColor} from "./colors.js"
import {drawnBySoftware} from "./gl.js"
import {listenTo} from "./pointer.js"
import {around, inner, norm, Solid} from "./solid.js"
import {batchOf, MOST_CLASSES, SpacePainter} from "./space_painter.js"

const GLASS_COLORS = {boundary: [.84, 0, 0, .28], level: [.15, .39, .92, .28]}
const NO_TILE_HERE = -1
const GRIP = 14 // pixels about a handle
const WHILE_MOVING = 1_500 // cells drawn of those pulled apart, where the GPU is only imitated
const COARSE = 0.5 // of the resolution, likewise
const FEW_LINES = 10_000 // walls whose outlines are drawn, likewise; more are too fine to be seen in a moving picture
const REST = 250 // milliseconds after which nothing moves
const OF_NO_TILE = 0xffffffff

export class SpaceView {
  constructor(element, data) {
    this.canvas = element.appendChild(document.createElement("canvas"))
    this.overlay = element.appendChild(document.createElement("canvas"))
    this.overlay.tabIndex = 0
    this.overlay.setAttribute("role", "img")
    this.painter = new SpacePainter(this.canvas)
    this.camera = new Camera()
    this.show = {cells: true, folds: true, plane: true, boundary: true, level: false, points: true}
    this.plane = {normal: [0, -1, 0], offset: 0} // what lies above it is cut off
    this.level = {output: 0, value: 0}
    this.pull = 0
    this.slow = drawnBySoftware()
    this.most = this.slow ? 10_000 : 60_000 // cells drawn when pulled apart
    this.hovered = NO_TILE_HERE
    this.onhover = () => {}
    this.onview = () => {}
    this.ontap = () => {}
    this.resize() // before the first drawing
    this.setData(data)
    this.takeTheme()
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.takeTheme())
    this.listen()
    new ResizeObserver(() => this.resize()).observe(element)
  }

  setData(data) { // another tiling; camera, plane and choices stay
    this.data = data
    this.count = data.count
    this.solid = new Solid(data)
    this.deepest = data.walls.depths.reduce((a, b) => Math.max(a, b), 1)
    this.classes = this.solid.outputs <= MOST_CLASSES ? this.solid.outputs : 0
    const centers = new Float32Array(4 * this.count)
    for (let t = 0; t < this.count; t++) for (let k = 0; k < 3; k++) centers[4 * t + k] = this.solid.centers[3 * t + k]
    this.painter.setCenters(centers)
    this.built = {}
    this.apart = null
    this.buildFixed()
    this.overlay.setAttribute("aria-label", `${data.title}: ${this.count} cells. Drag to turn, scroll to zoom, arrow keys turn, ` +
      "+ and - zoom, page up and down move the plane, x, y, z and v set it, p pulls cells apart, 0 shows all.")
    this.colorBy(this.colored ?? data.quantities[0]?.name ?? "folds")
  }

  // what the GPU is given, made anew when it is out of date

  wallBatch(pairs, perTile) { // pairs: walls and the tiles they are drawn for, one after the other; an edge once (per tile)
    const {offsets, corners, depths, tiles} = this.data.walls, {points, outputs, flips} = this.solid, values = this.data.values, V = points.length / 3
    const made = {offsets: [0], tiles: [], position: [], depths: []}, vertices = [], drawn = new Set(), lines = []
    let tile = -1
    for (let i = 0; i < pairs.length; i += 2) {
      const w = pairs[i]
      if (perTile && pairs[i + 1] !== tile) drawn.clear()
      tile = pairs[i + 1]
      let ring = corners.subarray(offsets[w], offsets[w + 1])
      if ((tiles[2 * w] === tile) === (flips[w] === 1)) ring = ring.slice().reverse() // counter-clockwise, seen from outside the tile
      for (let i = 0; i < ring.length; i++) {
        const v = ring[i], next = ring[(i + 1) % ring.length], edge = Math.min(v, next) * V + Math.max(v, next)
        lines.push(!drawn.has(edge))
        drawn.add(edge)
        vertices.push(v)
        made.position.push(points[3 * v], points[3 * v + 1], points[3 * v + 2])
        made.depths.push(depths[w])
      }
      made.tiles.push(tile)
      made.offsets.push(vertices.length)
    }
    return batchOf({...made, lines}, this.classes, (corner, k) => values[outputs * vertices[corner] + k])
  }

  zeroBatch(heights) {
    const found = this.solid.zeros(heights), {outputs} = this.solid, values = this.data.values
    return batchOf(found, this.classes, (corner, k) => {
      const s = found.share[corner]
      return (1 - s) * values[outputs * found.ends[2 * corner] + k] + s * values[outputs * found.ends[2 * corner + 1] + k]
    })
  }

  buildFixed() { // the domain's surface and edges, the boundary, the points
    const {data, solid} = this, outer = [], {tiles} = data.walls
    for (let w = 0; w < tiles.length; w += 2) if (tiles[w + 1] < 0 && tiles[w] >= 0) outer.push(w / 2, tiles[w])
    const hull = this.wallBatch(outer, false)
    hull.depth = Uint8Array.from(outer.flatMap((wall, i) => i % 2 ? [] : solid.depthsAround(wall, outer[i + 1], solid.flips[wall])))
    this.painter.setBatch("hull", hull)
    const corners = this.corners = []
    for (let i = 0; i < data.domain.length; i += 3) corners.push(solid.fromSlice(data.domain.slice(i, i + 3)))
    this.painter.setBatch("frame", {position: Float32Array.from(corners.flat()), lines: Uint32Array.from(data.outline),
      tile: new Uint32Array(corners.length).fill(OF_NO_TILE), triangles: new Uint32Array(0)})
    const surface = data.surface, place = []
    if (surface) for (const v of surface.corners) place.push(...solid.fromSlice(surface.vertices.subarray(3 * v, 3 * v + 3)))
    this.painter.setBatch("boundary", surface ? batchOf({...surface, position: place, depths: new Uint8Array(surface.corners.length)}) : null)
    const points = []
    for (let i = 0; i < data.points.length; i += 3) points.push(solid.fromSlice(data.points.slice(i, i + 3)))
    this.painter.setBatch("points", {position: Float32Array.from(points.flat()),
      tile: Uint32Array.from(points, p => { const t = solid.at(p); return t < 0 ? OF_NO_TILE : t }),
      outputs0: Float32Array.from(points.flatMap((_, i) => [...rgbOf(pointColor(data.labels, i)), 1]))})
  }

  build() {
    const {plane, level, built, show, painter, solid} = this
    const section = show.plane ? [...plane.normal, plane.offset].join() : ""
    if (built.section !== section) { built.section = section; painter.setBatch("section", section && this.zeroBatch(solid.heightsOver(plane))) }
    const surface = show.level && solid.outputs ? `${level.output} ${level.value}` : ""
    if (built.level !== surface) { built.level = surface; painter.setBatch("level", surface && this.zeroBatch(solid.heightsOf(level.output, level.value))) }
    if (this.pull > 0 && show.cells && built.apart !== this.most) { built.apart = this.most; this.buildApart() }
  }

  buildApart() { // the walls of each cell, the largest cells first, up to so many
    const {solid, most, count} = this, tiles = Uint32Array.from({length: count}, (_, i) => i).sort((a, b) => solid.volumes[b] - solid.volumes[a])
    const chosen = tiles.subarray(0, most), pairs = []
    let first = 0 // walls of the cells that are drawn while the picture moves
    this.apart = new Uint8Array(count)
    chosen.forEach((t, n) => {
      this.apart[t] = 1
      for (let i = solid.starts[t]; i < solid.starts[t + 1]; i++) pairs.push(solid.own[i], t)
      if (n < WHILE_MOVING) first = pairs.length / 2
    })
    const batch = this.wallBatch(pairs, true)
    batch.first = 3 * (batch.starts[first] - 2 * first)
    this.painter.setBatch("apart", batch)
  }

  // a sentence on what is seen of all cells
  drawn() {
    if (this.pull === 0 || this.count <= this.most || !this.apart) return "all"
    const share = this.solid.volumes.reduce((sum, v, t) => sum + this.apart[t] * v, 0) / this.solid.volumes.reduce((a, b) => a + b, 0)
    return `the largest ${this.most.toLocaleString("en")}, ${(100 * share).toPrecision(3)}% of the volume`
  }

  // the view

  home() { this.camera.home(); this.moved() }

  moved() { // a slow picture is drawn coarsely while it moves, and whole when it rests
    this.onview(this)
    if (this.slow) {
      clearTimeout(this.rest)
      this.moving = true
      this.rest = setTimeout(() => { this.moving = false; this.changed() }, REST)
    }
    this.changed()
  }

  resize() {
    const ratio = this.ratio = window.devicePixelRatio || 1, box = this.canvas.parentElement.getBoundingClientRect()
    this.width = Math.max(1, box.width)
    this.height = Math.max(1, box.height)
    this.overlay.width = Math.round(this.width * ratio)
    this.overlay.height = Math.round(this.height * ratio)
    this.camera.resize(this.width, this.height)
    if (this.solid) this.changed()
  }

  changed() {
    if (this.frame) return
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw() })
  }

  setPlane(normal, offset) {
    const length = norm(normal), reach = Math.max(...this.corners.map(p => Math.abs(inner(p, normal)))) / length
    this.plane = {normal: normal.map(v => v / length), offset: Math.min(reach, Math.max(-reach, offset))}
    this.moved()
  }

  reach() { return Math.max(...this.corners.map(p => Math.abs(inner(p, this.plane.normal)))) } // offsets that meet the domain

  setPull(pull) { this.pull = Math.min(3, Math.max(0, pull)); this.moved() }
  setLevel(output, value) { this.level = {output, value}; this.changed() }

  planeInSlice() { // a . t <= b is what is kept, in slice coordinates
    const a = this.plane.normal.map((v, k) => v / this.solid.unit[k]), length = norm(a)
    return [...a.map(v => v / length), (this.plane.offset + inner(a, this.solid.middle)) / length]
  }

  toScreen(t) { return this.camera.toScreen(this.solid.fromSlice(t)) } // pixels of a point of the slice, where nothing is pulled apart

  // colors

  takeTheme() {
    this.ground = themeColor(this.overlay, "--ground", [1, 1, 1])
    this.ink = themeColor(this.overlay, "--ink", [0, 0, 0])
    this.changed()
  }

  colorBy(name) {
    this.colored = name
    const q = this.quantity = this.data.quantities.find(each => each.name === name) ?? null
    this.levels = levelsOf(q, this.count)
    this.painter.setColors(colorTable(q))
    this.painter.setLevels(this.levels)
    this.changed()
  }

  // drawing

  draw() {
    this.build()
    const {camera, show, painter} = this, fine = this.ratio * (this.moving ? COARSE : 1)
    const [width, height] = [Math.round(this.width * fine), Math.round(this.height * fine)]
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, {width, height})
    painter.draw({
      camera: camera.matrix(), eye: camera.frame().eye, pixels: camera.focus(), pull: this.pull, plane: show.plane ? this.plane : null,
      classes: this.quantity?.name === "class" ? this.classes : 0, deepest: this.deepest, spot: 9 * this.ratio,
      ground: this.quantity || !show.cells ? this.ground : [.06, .08, .11], line: this.quantity ? this.ink : [.7, .7, .7], dark: [.1, .12, .16],
      walls: show.folds && !(this.moving && this.pull > 0), folds: !this.quantity, quick: this.moving,
      lines: this.moving && this.quantity ? FEW_LINES : Infinity, solids: show.cells ? [this.pull > 0 ? "apart" : "hull"] : [],
      section: show.plane ? "section" : null, points: show.points,
      glass: ["boundary", "level"].filter(name => show[name]).map(name => [name, GLASS_COLORS[name]]),
    })
    this.drawOverlay()
  }

  drawOverlay() {
    const pen = this.overlay.getContext("2d", {willReadFrequently: true})
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    pen.clearRect(0, 0, this.width, this.height)
    const ring = (points, close = true) => {
      const at = points.map(p => this.camera.toScreen(p))
      if (at.some(p => !p)) return
      at.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y))
      if (close) pen.closePath()
    }
    if (this.hovered >= 0 && this.hovered < this.count) {
      const shift = [0, 1, 2].map(k => this.pull * this.solid.centers[3 * this.hovered + k])
      pen.beginPath()
      for (const wall of this.solid.outline(this.hovered)) ring(wall.map(p => p.map((v, k) => v + shift[k])))
      pen.strokeStyle = "#fff"; pen.lineWidth = 3.5; pen.stroke()
      pen.strokeStyle = "#000"; pen.lineWidth = 1.5; pen.stroke()
    }
    this.drawAxes(pen)
    if (!this.show.plane) return
    const accent = getComputedStyle(this.overlay).getPropertyValue("--accent").trim() || "#2563eb"
    pen.strokeStyle = pen.fillStyle = accent
    pen.lineWidth = 1.5
    pen.beginPath(); ring(this.planeRing()); pen.stroke()
    const handles = this.handles()
    if (!handles) return
    pen.beginPath(); pen.moveTo(...handles.middle); pen.lineTo(...handles.tip); pen.lineWidth = 2.5; pen.stroke()
    for (const [place, radius] of [[handles.middle, 7], [handles.tip, 5]]) {
      pen.beginPath(); pen.arc(...place, radius, 0, 2 * Math.PI); pen.fill()
      pen.save(); pen.strokeStyle = "#fff"; pen.lineWidth = 1.5; pen.stroke(); pen.restore()
    }
  }

  drawAxes(pen) { // t1, t2, t3 at the middles of three edges of the domain's box, with the ends' values
    const {low, high} = this.solid, text = v => Math.abs(v) >= 1e-2 && Math.abs(v) < 1e5 || v === 0 ? String(Number(v.toPrecision(3))) : v.toExponential(1)
    pen.font = "13px system-ui, sans-serif"
    pen.textAlign = "center"
    pen.fillStyle = this.quantity || !this.show.cells ? getComputedStyle(this.overlay).color : "#ccc"
    const middle = this.camera.toScreen([0, 0, 0]), placed = []
    for (let k = 0; k < 3; k++) {
      const others = [0, 1, 2].filter(i => i !== k)
      let chosen = null
      for (const a of [0, 1]) for (const b of [0, 1]) { // of the four edges along this axis the one lowest in the picture
        const from = low.slice(), to = low.slice()
        to[k] = high[k]
        if (a) from[others[0]] = to[others[0]] = high[others[0]]
        if (b) from[others[1]] = to[others[1]] = high[others[1]]
        const p = this.toScreen(from), q = this.toScreen(to)
        if (!p || !q || !middle) continue
        const side = k < 2 ? (p[1] + q[1]) / 2 : Math.abs((p[0] + q[0]) / 2 - middle[0])
        if (!chosen || side > chosen.side) chosen = {p, q, side}
      }
      if (!chosen) continue
      const put = (s, words) => {
        const x = chosen.p[0] + s * (chosen.q[0] - chosen.p[0]), y = chosen.p[1] + s * (chosen.q[1] - chosen.p[1])
        const dx = x - middle[0], dy = y - middle[1], away = 1 / (Math.hypot(dx, dy) || 1), half = pen.measureText(words).width / 2 + 2
        const label = step => ({x: x + away * step * dx, y: y + away * step * dy + 5, half})
        const hits = a => placed.some(b => Math.abs(a.x - b.x) < a.half + b.half && Math.abs(a.y - b.y) < 14)
        let step = 16
        while (hits(label(step)) && step < 160) step += 4 // where two axes end at one corner
        placed.push(label(step))
        pen.fillText(words, placed.at(-1).x, placed.at(-1).y)
      }
      put(.5, `t${"₁₂₃"[k]}`); put(.1, text(low[k])); put(.9, text(high[k]))
    }
  }

  planeRing() { // where the plane meets the domain's edges, in order
    const {normal, offset} = this.plane, found = []
    for (let i = 0; i < this.data.outline.length; i += 2) {
      const a = this.corners[this.data.outline[i]], b = this.corners[this.data.outline[i + 1]], p = inner(a, normal) - offset, q = inner(b, normal) - offset
      if (p >= 0 !== q >= 0) found.push({at: a.map((v, k) => v + p / (p - q) * (b[k] - v))})
    }
    return found.length > 2 ? around(found).map(c => c.at) : []
  }

  handles() { // on the screen: the plane's middle, to move it, and an arrow's tip, to turn it
    const points = this.planeRing()
    if (!points.length) return null
    const center = [0, 1, 2].map(k => points.reduce((sum, p) => sum + p[k], 0) / points.length)
    const middle = this.camera.toScreen(center), tip = this.camera.toScreen(center.map((v, k) => v + .45 * this.plane.normal[k]))
    return middle && tip ? {center, middle: middle.slice(0, 2), tip: tip.slice(0, 2)} : null
  }

  // looking things up

  find(px, py) { // {tile, at (slice coordinates)} of what is seen at a pixel, or null
    const {origin, direction} = this.camera.ray(px, py), {show, plane} = this, cut = show.plane ? plane : null
    let found = null
    if (show.cells) found = this.solid.meet(origin, direction, {pull: this.pull, plane: cut, among: this.pull > 0 ? this.apart : null})
    else if (cut) {
      const far = (plane.offset - inner(plane.normal, origin)) / inner(plane.normal, direction)
      const at = origin.map((v, k) => v + far * direction[k]), tile = far > 0 ? this.solid.at(at) : -1
      if (tile >= 0) found = {tile, at}
    }
    return found && {tile: found.tile, at: this.solid.toSlice(found.at)}
  }

  hover(px, py) {
    const inside = px >= 0 && py >= 0 && px < this.width && py < this.height, found = inside ? this.find(px, py) : null
    this.hovered = found ? found.tile : NO_TILE_HERE
    this.onhover(this.hovered, found?.at ?? null)
    this.changed()
  }

  grab(px, py) {
    const handles = this.show.plane && this.handles(), near = p => Math.hypot(px - p[0], py - p[1]) < GRIP
    if (!handles) return null
    const {normal, offset} = this.plane
    if (near(handles.tip)) return {move: (x, y) => this.turnPlane(handles.center, x, y), end() {}}
    if (!near(handles.middle)) return null
    const along = [handles.tip[0] - handles.middle[0], handles.tip[1] - handles.middle[1]], square = Math.max(100, along[0] ** 2 + along[1] ** 2)
    return {move: (x, y) => this.setPlane(normal, offset + .45 * ((x - px) * along[0] + (y - py) * along[1]) / square), end() {}}
  }

  turnPlane(center, px, py) { // so that the arrow points to the pointer: to where its ray passes nearest, or meets the ball
    const {origin, direction} = this.camera.ray(px, py), arm = origin.map((v, k) => v - center[k]), along = -inner(arm, direction)
    const foot = arm.map((v, k) => v + along * direction[k]), rest = .45 ** 2 - inner(foot, foot), depth = rest > 0 ? Math.sqrt(rest) : 0
    const toward = inner(this.plane.normal, direction) > 0 ? 1 : -1
    const normal = foot.map((v, k) => v + toward * depth * direction[k]), length = norm(normal)
    this.setPlane(normal, inner(normal, center) / length)
  }

  listen() {
    const turn = (right, up) => { this.camera.turnBy(right, up); this.moved() }, zoom = factor => { this.camera.zoom(factor); this.moved() }
    const slide = step => this.setPlane(this.plane.normal, this.plane.offset + step), axis = k => this.setPlane([0, 1, 2].map(i => i === k ? (k === 1 ? -1 : 1) : 0), 0)
    const keys = {
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(.8), "0": () => this.home(),
      ArrowLeft: () => turn(.1, 0), ArrowRight: () => turn(-.1, 0), ArrowUp: () => turn(0, .1), ArrowDown: () => turn(0, -.1),
      PageUp: () => slide(.05), PageDown: () => slide(-.05), x: () => axis(0), y: () => axis(1), z: () => axis(2),
      v: () => this.setPlane(this.camera.frame().back, 0), p: () => this.setPull(this.pull > 0 ? 0 : .6),
    }
    listenTo(this.overlay, {
      hover: (px, py) => this.hover(px, py),
      leave: () => this.hover(-1, -1),
      tap: (px, py, event) => this.ontap(this.hovered, px, py, event),
      drag: (dx, dy, event, fingers) => {
        if (fingers > 1 || event.shiftKey || event.buttons === 2 || event.buttons === 4) { this.camera.pan(dx, dy); this.moved() } else turn(.008 * dx, .008 * dy)
      },
      pinch: factor => zoom(factor),
      wheel: factor => zoom(factor),
      double: () => zoom(1.6),
      grab: (px, py) => this.grab(px, py),
      key: name => {
        if (!keys[name]) return false
        keys[name]()
        this.hover(this.width / 2, this.height / 2) // what is in the middle is told, as it is under a pointer
        return true
      },
    })
    this.overlay.addEventListener("contextmenu", event => event.preventDefault())
  }
}

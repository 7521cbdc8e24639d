// Draws a tiling in WebGL2: pan, zoom to float64 depth, hover. No dependencies, no network.
//
//   const view = mount(element, data)
//
// data: {title, notes, vertices Float64Array[2V], offsets Uint32Array[K+1], corners Uint32Array[M],
//        depths Uint8Array[M] (depth of the fold from a corner to the next, 0 on the domain's boundary),
//        domain, anchors Float64Array[2n], boundary Float64Array[4s] (segments),
//        quantities [{name, label, log, low, high, categories, values Float32Array[K]}]}
//
// The GPU only sees float32. Positions handed to it are relative to a nearby origin, subtracted in float64, and
// tiles are clipped to a box a few times the view; so the picture stays sharp however deep the zoom.

const VIRIDIS = "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725"
const CATEGORIES = ["#88ccee", "#cc6677", "#ddcc77", "#117733", "#332288", "#aa4499", "#44aa99", "#999933", "#882255",
  "#661100", "#6699cc", "#888888"]
const BOX = 4, DEEPEST = 64 // the box is 4 times the view; a view 64 times smaller than its box gets a new one
const PICK_NOTHING = -1
export const FIRST_FOLD = 0.35 // of the table: darker colours are lost on the dark ground that folds are drawn on

const VERTEX = `#version 300 es
precision highp float; precision highp int;
layout(location=0) in vec2 position; layout(location=1) in uint tile; layout(location=2) in uint depth;
uniform vec2 shift, scale; uniform highp sampler2D values; uniform float deepest; uniform int mode;
flat out float level; flat out uint id;
void main() {
  gl_Position = vec4((position - shift) * scale, 0., 1.);
  id = tile + 1u;
  int width = textureSize(values, 0).x;
  level = mode == 2 ? mix(${FIRST_FOLD}, 1., float(int(depth) - 1) / max(1., deepest - 1.))
                    : texelFetch(values, ivec2(int(tile) % width, int(tile) / width), 0).r;
}`
const FRAGMENT = `#version 300 es
precision highp float; precision highp int;
flat in float level; flat in uint id;
uniform int mode; uniform sampler2D colors; uniform vec4 line;
out vec4 color;
void main() { // modes: 0 fill, 1 plain lines, 2 lines by depth, 3 tile numbers for picking
  if (mode == 3) color = vec4(uvec4(id, id >> 8, id >> 16, id >> 24) & 255u) / 255.;
  else if (mode == 1) color = line;
  else color = vec4(texture(colors, vec2(clamp(level, 0., 1.) * (255./256.) + .5/256., .5)).rgb, mode == 2 ? line.a : 1.);
}`

export function decode(text) {
  const arrays = {float64: Float64Array, float32: Float32Array, uint32: Uint32Array, uint8: Uint8Array}
  return JSON.parse(text, (_, value) => {
    if (!value || typeof value.base64 !== "string") return value
    const bytes = atob(value.base64), out = new Uint8Array(bytes.length)
    for (let i = 0; i < bytes.length; i++) out[i] = bytes.charCodeAt(i)
    return new arrays[value.dtype](out.buffer)
  })
}

export function mount(element, data) {
  return new TilingView(element, data)
}

class TilingView {
  constructor(element, data) {
    this.data = data
    this.count = data.offsets.length - 1
    this.bounds = tileBounds(data)
    this.canvas = element.appendChild(document.createElement("canvas"))
    this.overlay = element.appendChild(document.createElement("canvas"))
    this.overlay.tabIndex = 0
    this.overlay.setAttribute("role", "img")
    this.overlay.setAttribute("aria-label", `${data.title}. Drag to pan, scroll to zoom, arrow keys, + and -, 0 for all.`)
    this.gl = this.canvas.getContext("webgl2", {alpha: false, antialias: true, preserveDrawingBuffer: true})
    if (!this.gl) throw new Error("This page needs WebGL2, which this browser does not offer.")
    this.show = {folds: true, boundary: true, anchors: true}
    this.hovered = PICK_NOTHING
    this.onhover = () => {}
    this.onview = () => {}
    this.prepare()
    this.colorBy(data.quantities[0]?.name ?? "folds")
    this.listen()
    new ResizeObserver(() => this.resize()).observe(element)
    this.resize()
    this.home()
  }

  // the view: centre (float64) and pixels per unit

  home() {
    const [x0, y0, x1, y1] = extent(this.data.domain)
    this.lookAt((x0 + x1) / 2, (y0 + y1) / 2, 0.94 * Math.min(this.width / (x1 - x0), this.height / (y1 - y0)))
  }

  lookAt(x, y, scale) {
    const [x0, y0, x1, y1] = extent(this.data.domain), size = Math.max(x1 - x0, y1 - y0)
    const far = Math.max(Math.abs(x0), Math.abs(x1), Math.abs(y0), Math.abs(y1), size)
    this.scale = Math.min(Math.max(scale, 0.1 * Math.min(this.width, this.height) / size), 1e15 / far)
    this.x = Math.min(Math.max(x, x0 - size), x1 + size)
    this.y = Math.min(Math.max(y, y0 - size), y1 + size)
    this.changed()
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.toSlice(px, py), scale = this.scale
    this.lookAt(this.x, this.y, scale * factor)
    const k = scale / this.scale
    this.lookAt(x + (this.x - x) * k, y + (this.y - y) * k, this.scale)
  }

  toScreen(x, y) { return [this.width / 2 + (x - this.x) * this.scale, this.height / 2 - (y - this.y) * this.scale] }
  toSlice(px, py) { return [this.x + (px - this.width / 2) / this.scale, this.y - (py - this.height / 2) / this.scale] }

  resize() {
    const ratio = window.devicePixelRatio || 1, box = this.canvas.parentElement.getBoundingClientRect()
    this.width = Math.max(1, box.width)
    this.height = Math.max(1, box.height)
    for (const canvas of [this.canvas, this.overlay]) {
      canvas.width = Math.round(this.width * ratio)
      canvas.height = Math.round(this.height * ratio)
    }
    this.ratio = ratio
    if (this.scale) this.changed()
  }

  changed() {
    this.stale = true
    this.onview(this)
    if (this.frame) return
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw() })
  }

  // colours

  colorBy(name) {
    this.quantity = this.data.quantities.find(q => q.name === name) ?? null
    const gl = this.gl, q = this.quantity, table = new Uint8Array(256 * 4)
    for (let i = 0; i < 256; i++) table.set([...colorAt(q, i / 255), 255], 4 * i)
    gl.bindTexture(gl.TEXTURE_2D, this.colors)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, table)
    const width = Math.min(2048, Math.max(1, this.count)), height = Math.max(1, Math.ceil(this.count / width))
    const levels = new Float32Array(width * height)
    if (q) for (let i = 0; i < this.count; i++) levels[i] = levelOf(q, q.values[i])
    gl.bindTexture(gl.TEXTURE_2D, this.values)
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, width, height, 0, gl.RED, gl.FLOAT, levels)
    this.changed()
  }

  // drawing

  prepare() {
    const gl = this.gl
    this.program = link(gl, VERTEX, FRAGMENT)
    gl.useProgram(this.program)
    this.at = Object.fromEntries(["shift", "scale", "values", "deepest", "mode", "colors", "line"]
      .map(name => [name, gl.getUniformLocation(this.program, name)]))
    const texture = filter => {
      const made = gl.createTexture()
      gl.bindTexture(gl.TEXTURE_2D, made)
      for (const key of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, key, filter)
      for (const key of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, key, gl.CLAMP_TO_EDGE)
      return made
    }
    this.values = texture(gl.NEAREST)
    this.colors = texture(gl.NEAREST)
    this.ids = texture(gl.NEAREST)
    this.idFrame = gl.createFramebuffer()
    this.array = gl.createVertexArray()
    gl.bindVertexArray(this.array)
    this.buffers = {position: gl.createBuffer(), tile: gl.createBuffer(), depth: gl.createBuffer()}
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers.position)
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0)
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers.tile)
    gl.vertexAttribIPointer(1, 1, gl.UNSIGNED_INT, 0, 0)
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers.depth)
    gl.vertexAttribIPointer(2, 1, gl.UNSIGNED_BYTE, 0, 0)
    for (const i of [0, 1, 2]) gl.enableVertexAttribArray(i)
    this.triangles = gl.createBuffer()
    this.lines = gl.createBuffer()
    gl.uniform1i(this.at.values, 0)
    gl.uniform1i(this.at.colors, 1)
    this.deepest = this.data.depths.reduce((a, b) => Math.max(a, b), 1)
    gl.uniform1f(this.at.deepest, this.deepest)
  }

  mesh() { // positions for the GPU, rebuilt only when the view leaves their box or goes much deeper
    const halfX = this.width / 2 / this.scale, halfY = this.height / 2 / this.scale
    const m = this.built
    const fits = m && halfX * DEEPEST > m.half && (m.whole || (Math.abs(this.x - m.x) + halfX < m.half &&
      Math.abs(this.y - m.y) + halfY < m.half))
    if (fits) return m
    const half = BOX * Math.max(halfX, halfY), [x0, y0, x1, y1] = extent(this.data.domain)
    const whole = this.x - half <= x0 && this.x + half >= x1 && this.y - half <= y0 && this.y + half >= y1
    const built = {...buildMesh(this.data, this.bounds, this.x, this.y, half), x: this.x, y: this.y, half, whole}
    const gl = this.gl
    const upload = (target, buffer, content) => { gl.bindBuffer(target, buffer); gl.bufferData(target, content, gl.STATIC_DRAW) }
    gl.bindVertexArray(this.array)
    upload(gl.ARRAY_BUFFER, this.buffers.position, built.position)
    upload(gl.ARRAY_BUFFER, this.buffers.tile, built.tile)
    upload(gl.ARRAY_BUFFER, this.buffers.depth, built.depth)
    upload(gl.ELEMENT_ARRAY_BUFFER, this.triangles, built.triangles)
    upload(gl.ELEMENT_ARRAY_BUFFER, this.lines, built.lines)
    return this.built = built
  }

  pass(mode) {
    const gl = this.gl, lines = mode === 1 || mode === 2
    gl.uniform1i(this.at.mode, mode)
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, lines ? this.lines : this.triangles)
    gl.drawElements(lines ? gl.LINES : gl.TRIANGLES, (lines ? this.built.lines : this.built.triangles).length, gl.UNSIGNED_INT, 0)
  }

  aim() {
    const gl = this.gl, m = this.mesh()
    gl.viewport(0, 0, this.canvas.width, this.canvas.height)
    gl.bindVertexArray(this.array)
    gl.activeTexture(gl.TEXTURE1); gl.bindTexture(gl.TEXTURE_2D, this.colors)
    gl.activeTexture(gl.TEXTURE0); gl.bindTexture(gl.TEXTURE_2D, this.values)
    gl.uniform2f(this.at.shift, this.x - m.x, this.y - m.y)
    gl.uniform2f(this.at.scale, 2 * this.scale / this.width, 2 * this.scale / this.height)
  }

  draw() {
    const gl = this.gl
    gl.bindFramebuffer(gl.FRAMEBUFFER, null)
    this.aim()
    if (this.quantity) gl.clearColor(1, 1, 1, 1)
    else gl.clearColor(0.06, 0.08, 0.11, 1)
    gl.clear(gl.COLOR_BUFFER_BIT)
    if (this.quantity) this.pass(0)
    if (this.show.folds || !this.quantity) {
      // lines fade out where tiles are only a few pixels wide, or they would be all one sees
      const area = m => (m[2] - m[0]) * (m[3] - m[1]), size = Math.sqrt(area(extent(this.data.domain)) / this.count) * this.scale
      gl.enable(gl.BLEND)
      gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA)
      gl.uniform4f(this.at.line, 0, 0, 0, Math.min(0.75, Math.max(this.quantity ? 0 : 0.3, (size - 2) / 12)))
      this.pass(this.quantity ? 1 : 2)
      gl.disable(gl.BLEND)
    }
    this.drawOverlay()
  }

  drawOverlay() {
    const pen = this.overlay.getContext("2d"), {boundary, anchors} = this.data
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    pen.clearRect(0, 0, this.width, this.height)
    const inside = ([px, py]) => px > -1e4 && py > -1e4 && px < this.width + 1e4 && py < this.height + 1e4
    if (this.show.boundary) {
      pen.beginPath()
      for (let i = 0; i < boundary.length; i += 4) {
        const ends = clipSegment(boundary.subarray(i, i + 4), this.x, this.y, 2 * Math.max(this.width, this.height) / this.scale)
        if (!ends) continue
        pen.moveTo(...this.toScreen(ends[0], ends[1]))
        pen.lineTo(...this.toScreen(ends[2], ends[3]))
      }
      pen.strokeStyle = "#e00000"; pen.lineWidth = 2; pen.lineCap = "round"; pen.stroke()
    }
    if (this.hovered >= 0) {
      const m = {position: [], tile: [], depth: [], triangles: [], lines: []}
      addTile(m, this.data, this.hovered, this.x, this.y, 2 * Math.max(this.width, this.height) / this.scale, this.bounds)
      pen.beginPath()
      for (let i = 0; i < m.position.length; i += 2) pen.lineTo(...this.toScreen(this.x + m.position[i], this.y + m.position[i + 1]))
      pen.closePath()
      pen.strokeStyle = "#fff"; pen.lineWidth = 4; pen.stroke()
      pen.strokeStyle = "#000"; pen.lineWidth = 2; pen.stroke()
    }
    if (this.show.anchors) for (let i = 0; i < anchors.length; i += 2) {
      const p = this.toScreen(anchors[i], anchors[i + 1])
      if (!inside(p)) continue
      pen.beginPath(); pen.arc(...p, 5, 0, 2 * Math.PI)
      pen.fillStyle = "#fff"; pen.fill()
      pen.strokeStyle = "#000"; pen.lineWidth = 2; pen.stroke()
    }
  }

  // picking: the tiles drawn once more, each in the colour that is its number

  pick(px, py) {
    const gl = this.gl, {width, height} = this.canvas
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.idFrame)
    if (this.stale) {
      gl.activeTexture(gl.TEXTURE0)
      gl.bindTexture(gl.TEXTURE_2D, this.ids)
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, null)
      gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.ids, 0)
      this.aim()
      gl.clearColor(0, 0, 0, 0)
      gl.clear(gl.COLOR_BUFFER_BIT)
      this.pass(3)
      this.stale = false
    }
    const pixel = new Uint8Array(4)
    gl.readPixels(Math.floor(px * this.ratio), height - 1 - Math.floor(py * this.ratio), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel)
    gl.bindFramebuffer(gl.FRAMEBUFFER, null)
    return (pixel[0] | pixel[1] << 8 | pixel[2] << 16 | pixel[3] << 24) - 1
  }

  hover(px, py) {
    const tile = px < 0 || py < 0 || px >= this.width || py >= this.height ? PICK_NOTHING : this.pick(px, py)
    const moved = tile !== this.hovered
    this.hovered = tile
    this.onhover(tile, ...this.toSlice(px, py))
    if (moved) this.drawOverlay()
  }

  listen() {
    const target = this.overlay, pointers = new Map()
    const place = event => { const box = target.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top] }
    const spread = () => { const [a, b] = [...pointers.values()]; return Math.hypot(a[0] - b[0], a[1] - b[1]) }
    target.addEventListener("pointerdown", event => { target.setPointerCapture(event.pointerId); pointers.set(event.pointerId, place(event)) })
    for (const end of ["pointerup", "pointercancel"]) target.addEventListener(end, event => pointers.delete(event.pointerId))
    target.addEventListener("pointermove", event => {
      const now = place(event), before = pointers.get(event.pointerId)
      if (!before) return this.hover(...now)
      const apart = pointers.size === 2 ? spread() : 0
      pointers.set(event.pointerId, now)
      const share = 1 / pointers.size
      this.lookAt(this.x - share * (now[0] - before[0]) / this.scale, this.y + share * (now[1] - before[1]) / this.scale, this.scale)
      if (apart > 0) this.zoom(spread() / apart, ...now)
    })
    target.addEventListener("pointerleave", () => this.hover(-1, -1))
    target.addEventListener("wheel", event => {
      event.preventDefault()
      this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...place(event))
    }, {passive: false})
    target.addEventListener("dblclick", event => this.zoom(4, ...place(event)))
    const step = 60, keys = {
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5), "0": () => this.home(),
      ArrowLeft: () => this.lookAt(this.x - step / this.scale, this.y, this.scale),
      ArrowRight: () => this.lookAt(this.x + step / this.scale, this.y, this.scale),
      ArrowUp: () => this.lookAt(this.x, this.y + step / this.scale, this.scale),
      ArrowDown: () => this.lookAt(this.x, this.y - step / this.scale, this.scale),
    }
    target.addEventListener("keydown", event => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      keys[event.key]()
    })
  }
}

// geometry, all in float64

function extent(points) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
  for (let i = 0; i < points.length; i += 2) {
    x0 = Math.min(x0, points[i]); x1 = Math.max(x1, points[i])
    y0 = Math.min(y0, points[i + 1]); y1 = Math.max(y1, points[i + 1])
  }
  return [x0, y0, x1, y1]
}

function tileBounds({vertices, offsets, corners}) {
  const count = offsets.length - 1, bounds = new Float64Array(4 * count)
  for (let t = 0; t < count; t++) {
    let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity
    for (let c = offsets[t]; c < offsets[t + 1]; c++) {
      const x = vertices[2 * corners[c]], y = vertices[2 * corners[c] + 1]
      if (x < x0) x0 = x
      if (x > x1) x1 = x
      if (y < y0) y0 = y
      if (y > y1) y1 = y
    }
    bounds.set([x0, y0, x1, y1], 4 * t)
  }
  return bounds
}

function addTile(mesh, {vertices, offsets, corners, depths}, tile, x, y, half, bounds) {
  const b = 4 * tile
  if (bounds[b] > x + half || bounds[b + 2] < x - half || bounds[b + 1] > y + half || bounds[b + 3] < y - half) return
  let ring = []
  for (let c = offsets[tile]; c < offsets[tile + 1]; c++) ring.push([vertices[2 * corners[c]] - x, vertices[2 * corners[c] + 1] - y, depths[c]])
  if (bounds[b] < x - half || bounds[b + 2] > x + half || bounds[b + 1] < y - half || bounds[b + 3] > y + half) ring = clipRing(ring, half)
  if (ring.length < 3) return
  const first = mesh.tile.length
  ring.forEach(([px, py, depth], i) => {
    mesh.position.push(px, py)
    mesh.tile.push(tile)
    mesh.depth.push(depth)
    // the line's colour is that of its last vertex (flat shading), so it runs from the next corner to this one
    if (depth !== 255) mesh.lines.push(first + (i + 1) % ring.length, first + i)
    if (i > 1) mesh.triangles.push(first, first + i - 1, first + i)
  })
}

function buildMesh(data, bounds, x, y, half) {
  const mesh = {position: [], tile: [], depth: [], triangles: [], lines: []}
  for (let t = 0; t < data.offsets.length - 1; t++) addTile(mesh, data, t, x, y, half, bounds)
  return {position: new Float32Array(mesh.position), tile: new Uint32Array(mesh.tile), depth: new Uint8Array(mesh.depth),
    triangles: new Uint32Array(mesh.triangles), lines: new Uint32Array(mesh.lines)}
}

function clipRing(ring, half) { // Sutherland-Hodgman; an edge along the box gets depth 255: not drawn
  for (const [axis, sign] of [[0, 1], [0, -1], [1, 1], [1, -1]]) {
    const out = [], room = p => half - sign * p[axis]
    ring.forEach((p, i) => {
      const q = ring[(i + 1) % ring.length], a = room(p), b = room(q)
      if (a >= 0) out.push(p)
      if ((a >= 0) !== (b >= 0)) {
        const s = a / (a - b)
        out.push([p[0] + s * (q[0] - p[0]), p[1] + s * (q[1] - p[1]), a >= 0 ? 255 : p[2]])
      }
    })
    ring = out
  }
  return ring
}

function clipSegment([ax, ay, bx, by], x, y, half) { // Liang-Barsky
  let low = 0, high = 1
  const dx = bx - ax, dy = by - ay
  for (const [p, q] of [[-dx, ax - x + half], [dx, x + half - ax], [-dy, ay - y + half], [dy, y + half - ay]]) {
    if (p === 0) { if (q < 0) return null; continue }
    if (p < 0) low = Math.max(low, q / p)
    else high = Math.min(high, q / p)
  }
  return low > high ? null : [ax + low * dx, ay + low * dy, ax + high * dx, ay + high * dy]
}

// colours

const rgb = hex => [0, 2, 4].map(i => parseInt(hex.slice(i, i + 2), 16))

function levelOf(q, value) { // a value's place on the colour table, 0 to 1
  if (q.categories) return ((value % CATEGORIES.length) + 0.5) / CATEGORIES.length
  const f = q.log ? Math.log : v => v
  return q.high > q.low ? (f(Math.max(value, q.low)) - f(q.low)) / (f(q.high) - f(q.low)) : 0.5
}

function colorAt(q, level) {
  if (q?.categories) return rgb(CATEGORIES[Math.min(CATEGORIES.length - 1, Math.floor(level * CATEGORIES.length))].slice(1))
  const at = level * (VIRIDIS.length / 6 - 1), i = Math.min(Math.floor(at), VIRIDIS.length / 6 - 2)
  const a = rgb(VIRIDIS.slice(6 * i)), b = rgb(VIRIDIS.slice(6 * i + 6))
  return a.map((v, k) => Math.round(v + (at - i) * (b[k] - v)))
}

export function colorOf(q, value) { return `rgb(${colorAt(q, Math.min(1, Math.max(0, levelOf(q, value)))).join(",")})` }

export function gradient(from = 0) {
  const color = i => `rgb(${colorAt(null, from + (1 - from) * i / 16).join(",")})`
  return `linear-gradient(to right, ${Array.from({length: 17}, (_, i) => color(i)).join(",")})`
}

function link(gl, vertex, fragment) {
  const program = gl.createProgram()
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind)
    gl.shaderSource(shader, source)
    gl.compileShader(shader)
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader))
    gl.attachShader(program, shader)
  }
  gl.linkProgram(program)
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program))
  return program
}

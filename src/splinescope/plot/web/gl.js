// What every painter needs of WebGL2: a context, a program, textures.

let software = null
export function drawnBySoftware() { // no WebGL2, or only imitated: slow
  if (software !== null) return software
  const gl = document.createElement("canvas").getContext("webgl2"), told = gl?.getExtension("WEBGL_debug_renderer_info")
  software = !gl || (told ? /swiftshader|llvmpipe|software/i.test(gl.getParameter(told.UNMASKED_RENDERER_WEBGL)) : false)
  gl?.getExtension("WEBGL_lose_context")?.loseContext()
  return software
}

export function context(canvas, options = {}) {
  const gl = canvas.getContext("webgl2", {alpha: false, antialias: !drawnBySoftware(), preserveDrawingBuffer: true, ...options})
  if (!gl) throw new Error("This page needs WebGL2, which this browser does not offer.")
  return gl
}

export function link(gl, vertex, fragment) {
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

export class Textures { // one per name, at the texture units 0, 1, ..., read without smoothing
  constructor(gl, places) { // places: {name: location of the uniform}
    this.gl = gl
    this.made = Object.entries(places).map(([name, place], unit) => {
      gl.uniform1i(place, unit)
      const texture = gl.createTexture()
      gl.bindTexture(gl.TEXTURE_2D, texture)
      for (const key of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, key, gl.NEAREST)
      for (const key of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, key, gl.CLAMP_TO_EDGE)
      return {name, texture}
    })
  }

  bind(unit) {
    this.gl.activeTexture(this.gl.TEXTURE0 + unit)
    this.gl.bindTexture(this.gl.TEXTURE_2D, this.made[unit].texture)
  }

  bindAll() { this.made.forEach((_, unit) => this.bind(unit)) }

  setNumbers(name, numbers, each = 1) { // `each` floats (1 or 4) per tile, in rows of 2048 tiles
    const gl = this.gl, count = numbers.length / each, width = Math.min(2048, Math.max(1, count)), height = Math.max(1, Math.ceil(count / width))
    const padded = count === width * height ? numbers : new Float32Array(each * width * height)
    if (padded !== numbers) padded.set(numbers)
    this.bind(this.made.findIndex(one => one.name === name))
    gl.texImage2D(gl.TEXTURE_2D, 0, each === 4 ? gl.RGBA32F : gl.R32F, width, height, 0, each === 4 ? gl.RGBA : gl.RED, gl.FLOAT, padded)
  }

  setPixels(name, pixels, width, height) {
    const gl = this.gl
    this.bind(this.made.findIndex(one => one.name === name))
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, pixels)
  }
}

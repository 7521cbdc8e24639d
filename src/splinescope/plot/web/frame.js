// Frames: nested JSON whose numeric arrays follow as raw bytes. Python's `pack` writes them, and so does this one.
//
// Layout: uint32 length of the JSON text, the text padded to a multiple of 8, then the arrays, each 8-aligned.
// In the text an array is {"$": [dtype, first byte after the text, count]}.

const ARRAYS = {float64: Float64Array, float32: Float32Array, uint32: Uint32Array, int32: Int32Array, uint16: Uint16Array,
  uint8: Uint8Array}

export function unpack(buffer) { // typed arrays are views: nothing is copied
  const size = new DataView(buffer).getUint32(0, true)
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, size))
  const start = Math.ceil((4 + size) / 8) * 8
  return JSON.parse(text, (_, value) => {
    if (!value || !Array.isArray(value.$)) return value
    const [dtype, offset, count] = value.$
    return new ARRAYS[dtype](buffer, start + offset, count)
  })
}

export function pack(content) { // as Python's `pack`
  const arrays = []
  let size = 0
  const text = new TextEncoder().encode(JSON.stringify(content, (_, value) => {
    if (!ArrayBuffer.isView(value)) return value
    const dtype = Object.keys(ARRAYS).find(name => value instanceof ARRAYS[name]), place = {$: [dtype, size, value.length]}
    arrays.push([size, value])
    size += Math.ceil(value.byteLength / 8) * 8
    return place
  }))
  const start = Math.ceil((4 + text.length) / 8) * 8, bytes = new Uint8Array(start + size)
  new DataView(bytes.buffer).setUint32(0, text.length, true)
  bytes.set(text, 4)
  for (const [at, array] of arrays) bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), start + at)
  return bytes
}

export async function unpackText(text) { // base64 of a zlib stream: what a page carries
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length)
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i)
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
  return unpack(await new Response(stream).arrayBuffer())
}

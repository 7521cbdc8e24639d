// An animated GIF: one table of colors for all pictures, and each picture's pixels, where they changed, packed by LZW.

const SAME = 255 // the number of the color that leaves a pixel as it was
const CLEAR = 256, END = 257

export function gif(pictures, width, height, hundredths) { // pictures: RGBA bytes; the time that each is shown
  const {colors, numberOf} = tableOf(pictures), word = v => [v & 255, v >> 8]
  const parts = [text("GIF89a"), [...word(width), ...word(height), 0xf7, 0, 0], colors, [0x21, 0xff, 11], text("NETSCAPE2.0"), [3, 1, 0, 0, 0]]
  let before = null
  pictures.forEach((pixels, i) => {
    const numbers = Uint8Array.from({length: width * height}, (_, p) => numberOf[bucket(pixels, 4 * p)])
    const changed = before ? numbers.map((number, p) => number === before[p] ? SAME : number) : numbers
    parts.push([0x21, 0xf9, 4, 5, ...word(hundredths[i]), SAME, 0, 0x2c, 0, 0, 0, 0, ...word(width), ...word(height), 0, 8])
    const bytes = packed(changed)
    for (let p = 0; p < bytes.length; p += 255) { const block = bytes.subarray(p, p + 255); parts.push([block.length], block) }
    parts.push([0])
    before = numbers
  })
  return new Blob([...parts, [0x3b]].map(part => Uint8Array.from(part)), {type: "image/gif"})
}

const text = letters => Array.from(letters, letter => letter.charCodeAt(0))
const bucket = (pixels, at) => pixels[at] >> 3 << 10 | pixels[at + 1] >> 3 << 5 | pixels[at + 2] >> 3 // of like colors

function tableOf(pictures) { // the 255 commonest colors, and for each bucket the number of the nearest
  const sums = new Float64Array(4 << 15), numberOf = new Uint8Array(1 << 15), colors = new Uint8Array(3 * 256)
  for (const pixels of pictures) for (let p = 0; p < pixels.length; p += 4) {
    const at = 4 * bucket(pixels, p)
    for (let k = 0; k < 3; k++) sums[at + k] += pixels[p + k]
    sums[at + 3]++
  }
  const there = [...numberOf.keys()].filter(b => sums[4 * b + 3]).sort((a, b) => sums[4 * b + 3] - sums[4 * a + 3])
  const mean = there.map(b => [0, 1, 2].map(k => sums[4 * b + k] / sums[4 * b + 3])), common = mean.slice(0, SAME)
  common.forEach((color, i) => colors.set(color.map(Math.round), 3 * i))
  there.forEach((b, i) => {
    const away = common.map(color => color.reduce((sum, v, k) => sum + (v - mean[i][k]) ** 2, 0))
    numberOf[b] = i < SAME ? i : away.indexOf(Math.min(...away))
  })
  return {colors, numberOf}
}

function packed(numbers) { // LZW: codes of 9 to 12 bits, lowest first
  const longer = new Uint16Array(4096 << 8), out = new Uint8Array(2 * numbers.length + 16) // code of a word and one more number
  let size = 9, last = END, word = numbers[0], bits = 0, held = 0, length = 0
  const put = code => {
    bits |= code << held
    for (held += size; held >= 8; held -= 8) { out[length++] = bits; bits >>>= 8 }
  }
  put(CLEAR)
  for (let i = 1; i < numbers.length; i++) {
    const key = word << 8 | numbers[i]
    if (longer[key]) { word = longer[key]; continue }
    put(word)
    word = numbers[i]
    if (last + 1 === 1 << size && size < 12) size++
    if (last < 4095) { longer[key] = ++last; continue }
    put(CLEAR)
    longer.fill(0)
    size = 9
    last = END
  }
  put(word)
  if (last + 1 === 1 << size && size < 12) size++
  put(END)
  out[length++] = bits
  return out.subarray(0, length)
}
